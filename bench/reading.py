"""What reading an upstream's answer costs: microseconds per delta, without sockets.

    python bench/reading.py

| column | work |
| --- | --- |
| single | each event is fed alone, as a paced model server sends it |
| burst | 64 events a chunk, as a busy socket gives them |
"""

import time
from collections.abc import Callable
from typing import Any

from gateway.upstream.assembly import Assembly
from gateway.upstream.chat_stream import ChatReader
from gateway.upstream.profiles import Profile
from gateway.upstream.responses_stream import ResponsesReader

EVENTS = 20_000
BURST = 64
ROUNDS = 5

# The frame that llama.cpp puts around every delta (230 bytes).
CHUNK = (
    b'data: {"choices":[{"finish_reason":null,"index":0,"delta":%s}],"created":1796013288,'
    b'"id":"chatcmpl-MZVviYLbImT0NRU9nH6XPUGt16JllOXI","model":"smollm2-135m",'
    b'"system_fingerprint":"b0-unknown","object":"chat.completion.chunk"}\n\n'
)
CALL = b'{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{\\"a\\":\\""}}]}'
ARGUMENTS = b'{"tool_calls":[{"index":0,"function":{"arguments":" tok"}}]}'
TEXT = b'{"content":" tok"}'
EVENT = (
    b'event: response.output_text.delta\ndata: {"content_index":0,"delta":" tok",'
    b'"item_id":"msg_1","logprobs":[],"output_index":0,"sequence_number":7,'
    b'"type":"response.output_text.delta"}\n\n'
)
ROWS: list[tuple[str, type[Any], list[bytes]]] = [
    ("chat text", ChatReader, [CHUNK % TEXT] * EVENTS),
    ("chat arguments", ChatReader, [CHUNK % CALL, *[CHUNK % ARGUMENTS] * EVENTS]),
    ("responses text", ResponsesReader, [EVENT] * EVENTS),
]


def best(run: Callable[[], None]) -> float:
    """Microseconds per event in the quietest round."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times) / EVENTS * 1e6


def feed(make: type[Any], chunks: list[bytes]) -> None:
    reader = make(Profile(), "text/event-stream")
    for chunk in chunks:
        reader.feed(chunk)


def assemble_text() -> None:
    assembly = Assembly()
    for _ in range(EVENTS):
        assembly.text(" tok")


def assemble_arguments() -> None:
    assembly = Assembly()
    assembly.call(0, "c", "f")
    assembly.arguments(0, '{"a":"')
    for _ in range(EVENTS):
        assembly.arguments(0, " tok")


def main() -> None:
    print(f"{'us per delta':<20}{'single':>8}{'burst':>8}")
    for name, make, chunks in ROWS:
        bursts = [b"".join(chunks[at : at + BURST]) for at in range(0, len(chunks), BURST)]
        single = best(lambda make=make, chunks=chunks: feed(make, chunks))
        burst = best(lambda make=make, bursts=bursts: feed(make, bursts))
        print(f"{name:<20}{single:>8.2f}{burst:>8.2f}")
    print(f"{'Assembly.text':<20}{best(assemble_text):>8.2f}")
    print(f"{'Assembly.arguments':<20}{best(assemble_arguments):>8.2f}")


if __name__ == "__main__":
    main()
