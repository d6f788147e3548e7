"""A model server that costs next to nothing: pre-encoded answers over plain asyncio sockets, in its own process.

    python bench/upstream.py --events 200 --rate 0

prints where it listens. Every POST is answered with one SSE stream of `--events` text deltas: at once when the
rate is 0 (a burst), else `--rate` events a second, each in a write of its own. The texts vary, so that nothing can be
cached by their bytes. The path decides the dialect: /v1/chat/completions or /v1/responses.
"""

import argparse
import asyncio
import json
import random

HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    b"Connection: close\r\nCache-Control: no-store\r\n\r\n"
)
WORDS = ("patch", "the file", " and ", "größer", "\n", "return x", "{}", "日本", "tests", "0")
MODELS = {
    "object": "list",
    "data": [{"id": "bench", "object": "model", "created": 0, "owned_by": "bench"}],
}


def sse(event: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\n"


def chat_events(count: int) -> list[bytes]:
    """Chunks of a chat completion: role, `count` texts, the end, usage."""

    def chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
        return sse(
            {
                "id": "chatcmpl-bench",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "bench",
                "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
            }
        )

    rng = random.Random(1)
    texts = [chunk({"content": f"{rng.choice(WORDS)}{rng.random():.3f}"}) for _ in range(count)]
    usage = {"prompt_tokens": 9, "completion_tokens": count, "total_tokens": 9 + count}
    end = sse({"id": "chatcmpl-bench", "choices": [], "usage": usage})
    head = chunk({"role": "assistant", "content": ""})
    return [head, *texts, chunk({}, "stop"), end, b"data: [DONE]\n\n"]


def responses_events(count: int) -> list[bytes]:
    """Events of a function-only Responses server."""
    rng = random.Random(1)
    texts = [f"{rng.choice(WORDS)}{rng.random():.3f}" for _ in range(count)]
    at = {"item_id": "msg_b", "output_index": 0, "content_index": 0}
    message = {"id": "msg_b", "type": "message", "role": "assistant", "status": "completed"}
    part = {"type": "output_text", "text": "".join(texts), "annotations": []}
    usage = {"input_tokens": 9, "output_tokens": count, "total_tokens": 9 + count}
    done = {**message, "content": [part]}
    response = {"id": "resp_b", "object": "response", "status": "completed", "output": [done]}
    opened = {**message, "status": "in_progress", "content": []}
    empty_part = {"type": "output_text", "text": "", "annotations": []}
    events: list[dict[str, object]] = [
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": opened},
        {"type": "response.content_part.added", **at, "part": empty_part},
        *({"type": "response.output_text.delta", **at, "delta": text} for text in texts),
        {"type": "response.output_text.done", **at, "text": part["text"]},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": {**response, "usage": usage}},
    ]
    return [sse(event) for event in events]


class Upstream:
    """Answers every request on one socket, then closes it."""

    def __init__(self, count: int, rate: float) -> None:
        self._streams = {
            b"/v1/chat/completions": chat_events(count),
            b"/v1/responses": responses_events(count),
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
        events = self._streams.get(path)
        if events is None:
            body = json.dumps(MODELS).encode()
            writer.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            return
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
    args = parser.parse_args()
    upstream = Upstream(args.events, args.rate)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
