"""A model server that costs next to nothing: pre-encoded answers over plain asyncio sockets, in its own process.

    python bench/upstream.py --events 200 --rate 0 --kind text

prints where it listens. Every POST is answered with one SSE stream of `--events` deltas: at once when the rate is 0
(a burst), else `--rate` events a second, each in a write of its own. The texts vary within an answer and from answer to
answer. `--kind patch` is half text, half the arguments of an `apply_patch` call, in pieces as models write them. The
path decides the dialect: /v1/chat/completions or /v1/responses.
"""

import argparse
import asyncio
import itertools
import json
import random
from typing import Any

JSON = dict[str, Any]

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Connection: close\r\nCache-Control: no-store\r\n\r\n"
)
WORDS = ("patch", "the file", " and ", "größer", "\n", "return x", "{}", "日本", "tests", "0")
LINES = (
    "return x\n",
    'print("größer")\n',
    "# 日本\n",
    "\tif a < b:\n",
    "x = {'a': \"\\n\"}\n",
    "\n",
)
# Answers that differ; requests get them in turn.
VARIANTS = 4
MODELS = {
    "object": "list",
    "data": [{"id": "bench", "object": "model", "created": 0, "owned_by": "bench"}],
}


def sse(event: JSON) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"


def texts(rng: random.Random, count: int) -> list[str]:
    return [f"{rng.choice(WORDS)}{rng.random():.3f}" for _ in range(count)]


def patch_pieces(rng: random.Random, count: int) -> list[str]:
    """The arguments of an `apply_patch` call in `count` pieces of about four characters to twelve."""
    lines = ["*** Begin Patch\n", "*** Add File: bench.py\n"]
    size = 0
    while size < count * 8:
        lines.append(f"+{rng.choice(LINES)}")
        size += len(lines[-1])
    arguments = json.dumps({"input": "".join([*lines, "*** End Patch\n"])}, ensure_ascii=False)
    cuts = sorted(rng.sample(range(1, len(arguments)), count - 1))
    return [arguments[a:b] for a, b in itertools.pairwise([0, *cuts, len(arguments)])]


def parts(kind: str, count: int, seed: int) -> tuple[list[str], list[str]]:
    """The text deltas and the argument deltas of an answer."""
    rng = random.Random(seed)
    pieces = patch_pieces(rng, count // 2) if kind == "patch" else []
    return texts(rng, count - len(pieces)), pieces


def chat_events(kind: str, count: int, seed: int) -> list[bytes]:
    """Chunks of a chat completion: role, texts, perhaps a call, the end, usage."""

    def chunk(delta: JSON, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        head = {"id": f"chatcmpl-{seed}", "object": "chat.completion.chunk", "created": 1}
        return sse({**head, "model": "bench", "choices": [choice]})

    said, pieces = parts(kind, count, seed)
    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": text}) for text in said]
    for number, piece in enumerate(pieces):
        call: JSON = {"index": 0, "function": {"arguments": piece}}
        if number == 0:
            function = {"name": "apply_patch", "arguments": piece}
            call = {"index": 0, "id": f"call_{seed}", "type": "function", "function": function}
        events.append(chunk({"tool_calls": [call]}))
    usage = {"prompt_tokens": 9, "completion_tokens": count, "total_tokens": 9 + count}
    events.append(chunk({}, "tool_calls" if pieces else "stop"))
    events.append(sse({"id": f"chatcmpl-{seed}", "choices": [], "usage": usage}))
    return [*events, b"data: [DONE]\n\n"]


def responses_events(kind: str, count: int, seed: int) -> list[bytes]:
    """Events of a function-only Responses server."""
    said, pieces = parts(kind, count, seed)
    head = {"id": f"resp_{seed}", "object": "response"}
    events: list[JSON] = [
        {"type": "response.created", "response": {**head, "status": "in_progress", "output": []}}
    ]
    output: list[JSON] = []
    text_events, message = _message(said, seed)
    events += text_events
    output.append(message)
    if pieces:
        call_events, call = _call(pieces, seed)
        events += call_events
        output.append(call)
    usage = {"input_tokens": 9, "output_tokens": count, "total_tokens": 9 + count}
    response = {**head, "status": "completed", "output": output, "usage": usage}
    events.append({"type": "response.completed", "response": response})
    return [sse(event) for event in events]


def _message(said: list[str], seed: int) -> tuple[list[JSON], JSON]:
    at = {"item_id": f"msg_{seed}", "output_index": 0, "content_index": 0}
    message = {"id": f"msg_{seed}", "type": "message", "role": "assistant"}
    part = {"type": "output_text", "text": "".join(said), "annotations": []}
    done = {**message, "status": "completed", "content": [part]}
    opened = {**message, "status": "in_progress", "content": []}
    return [
        {"type": "response.output_item.added", "output_index": 0, "item": opened},
        {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
        *({"type": "response.output_text.delta", **at, "delta": text} for text in said),
        {"type": "response.output_text.done", **at, "text": part["text"]},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    ], done


def _call(pieces: list[str], seed: int) -> tuple[list[JSON], JSON]:
    at = {"item_id": f"fc_{seed}", "output_index": 1}
    call = {"id": f"fc_{seed}", "type": "function_call", "call_id": f"call_{seed}"}
    call["name"] = "apply_patch"
    done = {**call, "status": "completed", "arguments": "".join(pieces)}
    opened = {**call, "status": "in_progress", "arguments": ""}
    kind = "response.function_call_arguments"
    return [
        {"type": "response.output_item.added", "output_index": 1, "item": opened},
        *({"type": f"{kind}.delta", **at, "delta": piece} for piece in pieces),
        {"type": f"{kind}.done", **at, "arguments": done["arguments"]},
        {"type": "response.output_item.done", "output_index": 1, "item": done},
    ], done


class Upstream:
    """Answers every request on one socket, then closes it."""

    def __init__(self, kind: str, count: int, rate: float) -> None:
        seeds = range(VARIANTS)
        self._streams = {
            b"/v1/chat/completions": itertools.cycle(chat_events(kind, count, n) for n in seeds),
            b"/v1/responses": itertools.cycle(responses_events(kind, count, n) for n in seeds),
        }
        self._pause = 1 / rate if rate else 0.0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            if b"content-length:" in lower:
                length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(length)
            await self._answer(head.split(b" ", 2)[1], writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, path: bytes, writer: asyncio.StreamWriter) -> None:
        streams = self._streams.get(path)
        if streams is None:
            body = json.dumps(MODELS).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            return
        events = next(streams)
        writer.write(HEAD)
        if not self._pause:
            writer.write(b"".join(events))
            await writer.drain()
            return
        clock = asyncio.get_running_loop().time
        due = clock()
        for event in events:
            writer.write(event)
            due += self._pause
            await asyncio.sleep(max(0.0, due - clock()))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--kind", choices=("text", "patch"), default="text")
    args = parser.parse_args()
    upstream = Upstream(args.kind, args.events, args.rate)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
