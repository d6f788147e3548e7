"""A conversation of a coding agent with every kind of tool, played over any transport.

The model and the agent are functions of the turn's number, so that two plays differ in the transport alone.
"""

import itertools
import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import aiohttp

from tests.scripted import Answer, Call, Received, Text, hang
from tests.server.clients import ENDS

JSON = dict[str, Any]

PARAMETERS = {"type": "object", "properties": {"q": {"type": "string"}}}


def function(name: str, **fields: Any) -> JSON:
    return {
        "type": "function",
        "name": name,
        "description": name,
        "parameters": PARAMETERS,
        "strict": False,
        **fields,
    }


TOOLS: list[JSON] = [
    function("shell"),
    {"type": "custom", "name": "apply_patch", "description": "Patch."},
    {
        "type": "namespace",
        "name": "mcp__files",
        "description": "Files.",
        "tools": [
            function("get"),
            {"type": "custom", "name": "note", "description": "Note."},
            function("put", defer_loading=True),
        ],
    },
    {
        "type": "tool_search",
        "execution": "client",
        "description": "Find.",
        "parameters": PARAMETERS,
    },
]


class Model:
    """What the model says at each of its turns; an interrupted one is asked the same again."""

    KINDS = ("text", "function", "custom", "spaced", "search", "loaded", "many", "cut", "dropped")

    def __init__(self) -> None:
        self._ids = itertools.count()
        self._asked = itertools.count()
        self.is_dropped = False

    def __call__(self, request: Received) -> Any:
        if self.is_dropped:
            self.is_dropped = False
            return Answer(["once more"])
        kind = self.KINDS[next(self._asked) % len(self.KINDS)]
        self.is_dropped = kind == "dropped"
        return getattr(self, f"_{kind}")()

    def _call(self, name: str, arguments: JSON) -> Call:
        return Call(name, arguments, call_id=f"call_{next(self._ids)}")

    def _text(self) -> Any:
        return Answer(["some words – "])

    def _function(self) -> Any:
        return self._call("shell", {"q": "ls"})

    def _custom(self) -> Any:
        return [Text("I patch."), self._call("apply_patch", {"input": 'a "b"\n\\ – c'})]

    def _spaced(self) -> Any:
        return [
            self._call("mcp__files__get", {"q": "x"}),
            self._call("mcp__files__note", {"input": "n"}),
        ]

    def _search(self) -> Any:
        return self._call("tool_search", {"query": "put"})

    def _loaded(self) -> Any:
        return self._call("mcp__files__put", {"q": "y"})

    def _many(self) -> Any:
        return [
            Text("All at once."),
            self._call("shell", {}),
            self._call("apply_patch", {"input": "p"}),
            self._call("mcp__files__get", {"q": "z"}),
        ]

    def _cut(self) -> Any:
        return Answer(["a sentence that is cut"], finish="length")

    def _dropped(self) -> Any:
        return hang(["never read to its end"], after=2)


def outputs(output: list[JSON], number: int) -> list[JSON]:
    """What the agent answers: an output for each call, an aborted one at times, two for one call at others."""
    answers = []
    for item in output:
        if item["type"] == "tool_search_call":
            found = [function(f"extra_{number % 20}"), TOOLS[2]]
            answers.append(
                {
                    "type": "tool_search_output",
                    "execution": "client",
                    "call_id": item["call_id"],
                    "status": "completed",
                    "tools": found,
                }
            )
        elif item["type"] in ("function_call", "custom_tool_call"):
            text = "aborted" if number % 7 == 0 else f"output {number}"
            answer = {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": text}
            parts = [{"type": "input_text", "text": text}]
            answers += [answer, {**answer, "output": parts}] if number % 11 == 0 else [answer]
    return answers


def user(number: int) -> JSON:
    return {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": f"go on {number}"}],
    }


class Agent:
    """Plays turns.

    Args:
        session: of HTTP.
        url: of /v1/responses.
        how: `ws`, `chain` (HTTP with previous_response_id) or `resend`.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, how: str) -> None:
        self._session = session
        self._url = url
        self._how = how
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._said: list[JSON] = []
        self._previous: str | None = None

    async def play(self, turns: int, upstream: Any) -> None:
        output: list[JSON] = []
        for number in range(turns):
            items = outputs(output, number)
            if not items or number % 13 == 0:
                items.append(user(number))
            if Model.KINDS[number % len(Model.KINDS)] == "dropped":
                await self._drop(items, upstream)
            output = await self._turn(items)

    def _request(self, items: list[JSON]) -> JSON:
        request = {"model": "scripted", "tools": TOOLS, "instructions": "Be brief."}
        request["store"] = self._how == "chain"
        if self._how == "resend" or self._previous is None:
            return {**request, "input": [*self._said, *items]}
        return {**request, "input": items, "previous_response_id": self._previous}

    async def _turn(self, items: list[JSON]) -> list[JSON]:
        request = self._request(items)
        events = [event async for event in self._events(request)]
        assert events[-1]["type"] in ("response.completed", "response.incomplete"), events[-1]
        response = events[-1]["response"]
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        assert done == response["output"]
        self._said += [*items, *done]
        self._previous = response["id"]
        return done

    async def _drop(self, items: list[JSON], upstream: Any) -> None:
        """Begin the turn and leave in its middle, as an interrupt does: the connection is gone."""
        events = self._events(self._request(items))
        before = upstream.disconnects
        async for event in events:
            if event["type"] == "response.output_text.delta":
                break
        if self._socket is not None:
            await self._socket.close()
            self._socket = self._previous = None
        await events.aclose()
        await upstream.until(lambda it: it.disconnects > before)

    async def _events(self, request: JSON) -> AsyncGenerator[JSON, None]:
        if self._how == "ws":
            if self._socket is None:
                self._socket = await self._session.ws_connect(self._url, max_msg_size=0)
            await self._socket.send_json({"type": "response.create", **request})
            event: JSON = {"type": ""}
            while event["type"] not in ENDS:
                event = await self._socket.receive_json()
                yield event
            return
        async with self._session.post(self._url, json={**request, "stream": True}) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])


def prefixes(bodies: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Pairs of neighbours that must agree: what came before the messages is the same."""
    for before, after in itertools.pairwise(bodies):
        head = before.index(b'"messages":')
        if after[:head] == before[:head]:
            yield before[:-2], after
