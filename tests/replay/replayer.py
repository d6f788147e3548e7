"""Plays a recorded Codex session against the gateway, with the scripted strict upstream behind it.

The client's words are the recorded ones, except for what only this gateway can know: response ids,
call ids and sealed compaction blobs become the ones that it gave. The upstream says what the
recorded model said, lowered to function calls.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.replay.clients import Client
from tests.replay.recordings import Exchange
from tests.scripted import Answer, Call, Reasoning, Received, Refuse, ScriptedUpstream, Text

JSON = dict[str, Any]

CALLS = ("function_call", "custom_tool_call", "tool_search_call")
# Codex sends these only to itself; the comparison is about what a tool call must say.
COMPARED = ("type", "name", "namespace", "input", "execution")


@dataclass
class Memory:
    """What the gateway gave for what was recorded."""

    responses: dict[str, str] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, str] = field(default_factory=dict)
    # Whole histories by recorded response id, for transports without continuation.
    histories: dict[str, list[JSON]] = field(default_factory=dict)


class Replayer:
    """One session. `upstream` must have been made with `script=replayer.answer`."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._current: Exchange | None = None

    async def play(self, exchange: Exchange, client: Client, upstream: ScriptedUpstream) -> None:
        """Send one recorded request and check what the gateway makes of it."""
        self._current = exchange
        history = self._history(exchange)
        if exchange.warms_up and not client.keeps_connection:
            self._memory.histories[exchange.response_id] = history
            return
        before = len(upstream.requests)
        response = await client.create(self._request(exchange, client, history), exchange)
        upstream.check()
        asked = len(upstream.requests) - before
        if exchange.warms_up:
            assert asked == 0, "generate:false must not reach the model"
        elif exchange.outcome in ("response.failed", "error"):
            assert asked <= 1
            return
        else:
            assert asked == 1
            self._compare(exchange, response)
        self._remember(exchange, response, history)

    def answer(self, request: Received) -> Any:
        """What the recorded model said, as a function-only server says it."""
        exchange = self._current
        assert exchange is not None
        if exchange.outcome == "response.failed":
            return Refuse(429, {"error": {"message": "slow down", "code": "rate_limit_exceeded"}})
        if exchange.compacts:
            return "A summary of what has happened."
        parts = [lowered(item, request) for item in exchange.items] or [Text("ok")]
        finish = "length" if exchange.outcome == "response.incomplete" else ""
        return Answer(parts, finish=finish)

    def _history(self, exchange: Exchange) -> list[JSON]:
        known = self._memory.histories.get(exchange.request.get("previous_response_id") or "", [])
        return known + [self._translate(item) for item in exchange.request["input"]]

    def _request(self, exchange: Exchange, client: Client, history: list[JSON]) -> JSON:
        request = {**exchange.request, "input": history}
        previous = request.pop("previous_response_id", None)
        if previous is None or not client.keeps_connection:
            return request
        own = self._memory.responses[previous]
        new = history[len(self._memory.histories[previous]) :]
        return {**request, "previous_response_id": own, "input": new}

    def _translate(self, item: JSON) -> JSON:
        changes: JSON = {}
        if "call_id" in item:
            changes["call_id"] = self._memory.calls.get(item["call_id"], item["call_id"])
        if item["type"] == "compaction":
            changes["encrypted_content"] = self._memory.blobs[item["encrypted_content"]]
        return {**item, **changes}

    def _compare(self, exchange: Exchange, response: JSON) -> None:
        """The public items say what the recorded ones said."""
        if exchange.compacts:
            assert [i["type"] for i in response["output"]].count("compaction") == 1
            return
        said = [essence(item) for item in response["output"]]
        wanted = [essence(meant(item)) for item in exchange.items] or said
        if exchange.outcome == "response.incomplete":
            assert response["status"] == "incomplete"
        assert said == wanted

    def _remember(self, exchange: Exchange, response: JSON, history: list[JSON]) -> None:
        memory = self._memory
        memory.responses[exchange.response_id] = response["id"]
        memory.histories[exchange.response_id] = history + response["output"]
        for recorded, given in zip(exchange.items, response["output"], strict=False):
            if recorded["type"] in CALLS:
                memory.calls[recorded["call_id"]] = given["call_id"]
        for recorded in exchange.items:
            if recorded["type"] == "compaction":
                given = next(i for i in response["output"] if i["type"] == "compaction")
                memory.blobs[recorded["encrypted_content"]] = given["encrypted_content"]


def lowered(item: JSON, request: Received) -> Any:
    """A recorded output item as a part of a function-only model's answer."""
    kind = item["type"]
    if kind == "message":
        return Text("".join(part["text"] for part in item["content"]))
    if kind == "reasoning":
        return Reasoning("".join(part["text"] for part in item["summary"]))
    if kind == "tool_search_call":
        return Call("tool_search", item["arguments"])
    name = upstream_name(item, request)
    if kind == "custom_tool_call":
        return Call(name, {"input": item["input"]})
    assert kind == "function_call", f"no lowering for {kind}"
    return Call(name, item["arguments"])


def upstream_name(item: JSON, request: Received) -> str:
    """How the gateway has declared a tool: `namespace__member`, and bare at the top level."""
    namespace = item.get("namespace")
    if namespace in (None, "functions"):
        return str(item["name"])
    return request.named(f"{namespace}__{item['name']}")


# The patches of recording 27 in one known wrapping each: fences, heredocs, stars, JSON in JSON.
WRAPPED = re.compile(r"\*\*\* Add File: (p(?:5|6|7|8|9|10|11|12)\.txt)")


def meant(item: JSON) -> JSON:
    """A recorded item as the gateway gives it: a known wrapping is taken off where the grammar says so."""
    found = WRAPPED.search(item.get("input") or "")
    if found is None:
        return item
    patch = f"*** Begin Patch\n*** Add File: {found.group(1)}\n+hi\n*** End Patch"
    # A fence and a heredoc end in a line end, which belongs to the text.
    return {**item, "input": patch if item["input"][0] in '*{"' else f"{patch}\n"}


def essence(item: Mapping[str, Any]) -> JSON:
    """What an item says, apart from ids and from how arguments are spaced."""
    kept: JSON = {key: item[key] for key in COMPARED if item.get(key) is not None}
    if item["type"] == "message":
        kept["text"] = "".join(part["text"] for part in item["content"])
    if item["type"] == "reasoning":
        parts = [*item.get("summary", ()), *(item.get("content") or ())]
        kept["text"] = "".join(part["text"] for part in parts)
    if "arguments" in item:
        arguments = item["arguments"]
        kept["arguments"] = json.loads(arguments) if isinstance(arguments, str) else arguments
    return kept
