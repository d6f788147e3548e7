"""gateway/wire/sse.py: however the bytes are cut, the events are the same."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.wire.json import loads
from gateway.wire.sse import SSEDecoder, SSEEvent, SSETooLarge, encode_event

RECORDINGS = Path(__file__).parents[1] / "recordings" / "upstreams"


def decode(*chunks: bytes) -> list[SSEEvent]:
    decoder = SSEDecoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + decoder.finish()


def recorded(name: str) -> tuple[bytes, list[bytes]]:
    """The body of a recorded stream, and the chunks in which it came."""
    text = (RECORDINGS / name).read_bytes()
    head = re.match(rb"(?:# .*\n)*", text)
    assert head is not None
    body = text[head.end() :]
    sizes = [int(size) for size in re.findall(rb"# chunk \d+ t=\S+ bytes=(\d+)", head[0])]
    starts = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    assert starts[-1] == len(body)
    return body, [body[start:end] for start, end in pairwise(starts)]


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (b"data: a\n\n", [(None, "a")]),
        (b"data:a\n\n", [(None, "a")]),
        (b"data:  a\n\n", [(None, " a")]),
        (b"data: a\ndata: b\n\n", [(None, "a\nb")]),
        (b"data:\ndata:\n\n", [(None, "\n")]),
        (b"data:\n\n", [(None, "")]),
        (b"data\n\n", [(None, "")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [(None, "a"), (None, "b")]),
        (b"data: a\r\rdata: b\r\r", [(None, "a"), (None, "b")]),
        (b"data: a\r\n\ndata: b\n\r", [(None, "a"), (None, "b")]),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [(None, "a")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [("x", "a"), (None, "b")]),
        (b"data: a\nevent:x\n\n", [("x", "a")]),
        (b"event: x\nevent:\ndata: a\n\n", [(None, "a")]),
        (b"event: x\n\ndata: a\n\n", [(None, "a")]),
        (b"id: 1\nretry: 5\nfoo: bar\nDATA: no\ndata: a\n\n", [(None, "a")]),
        (b": hello\ndata: a\n:\n\n", [(None, "a")]),
        (b"\n\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [(None, "a"), (None, "b")]),
        (b"data: a\n", [(None, "a")]),
        (b"data: a", [(None, "a")]),
        (b"event: x", []),
        (b"", []),
        (b"data: [DONE]\n\n", [(None, "[DONE]")]),
        (b"data: a:b: c\n\n", [(None, "a:b: c")]),
        (b"data: \xff\xc3\n\n", [(None, "\ufffd\ufffd")]),
        (b"data: a\xe6\x97", [(None, "a\ufffd")]),
        (b"data: \x00\x0b\x0c\xc2\x85\xe2\x80\xa8\n\n", [(None, "\x00\x0b\x0c\x85\u2028")]),
    ],
)
def test_parsing_rules_at_every_cut(stream: bytes, expected: list[tuple[str | None, str]]) -> None:
    events = [SSEEvent(name, data) for name, data in expected]
    assert decode(stream) == events
    assert decode(*(bytes([byte]) for byte in stream)) == events
    for cut in range(len(stream) + 1):
        assert decode(stream[:cut], stream[cut:]) == events
        assert decode(stream[:cut], b"", stream[cut:]) == events


_pieces = st.sampled_from(
    [
        *(b"\r\n", b"\n", b"\r", b"data:", b"data: ", b"event: x", b":", b" ", b"{}"),
        *(b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b"\xe6\x97", b"\xff", b"data: a\n\n"),
    ]
)
_streams = st.lists(_pieces, max_size=25).map(b"".join)


@given(_streams, st.lists(st.integers(0, 120), max_size=8))
@example(b"data: a\r\n\r\n", [8, 9, 10])
def test_cuts_do_not_matter(stream: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    whole, pieces = SSEDecoder(), SSEDecoder()
    expected = whole.feed(stream) + whole.finish()
    got = [event for a, b in pairwise(places) for event in pieces.feed(stream[a:b])]
    got += pieces.finish()
    assert got == expected
    assert pieces.comments == whole.comments


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("llamacpp-server-b11434-smollm2-qwen25tmpl/chat-32-utf8-stream.txt", 22),
        ("litellm-1.110.2-chatbridge-to-llama-server/fs-06-resp-stream.txt", 15),
    ],
)
def test_recorded_streams(name: str, count: int) -> None:
    body, chunks = recorded(name)
    events = decode(body)
    assert len(events) == count
    for event in events:
        assert event.data == "[DONE]" or type(loads(event.data)) is dict
    assert decode(*chunks) == events
    for size in (1, 7, 100):
        assert decode(*(body[n : n + size] for n in range(0, len(body), size))) == events
    assert decode(body.replace(b"\n", b"\r\n")) == events


def test_events_are_given_as_soon_as_they_are_complete() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == [SSEEvent(None, "a")]
    assert decoder.feed(b"data: b\r\n\r") == [SSEEvent(None, "b")]
    assert decoder.feed(b"\ndata: c\n\ndata: d") == [SSEEvent(None, "c")]
    assert decoder.finish() == [SSEEvent(None, "d")]
    assert decoder.finish() == []


def test_comments_are_counted() -> None:
    decoder = SSEDecoder()
    assert decoder.feed(b": ping\n\n:\n: OPENROUTER PROCESSING\n\ndata: a\n: b\n\n") != []
    assert decoder.comments == 4
    assert decoder.feed(b": last") == decoder.finish() == []
    assert decoder.comments == 5


def test_an_endless_event_is_refused() -> None:
    decoder = SSEDecoder(max_event_bytes=100)
    decoder.feed(b"data: " + b"x" * 90)
    with pytest.raises(SSETooLarge, match="exceeds 100 bytes"):
        decoder.feed(b"x" * 10)


def test_the_limit_is_the_same_at_every_cut() -> None:
    fits, exceeds = (b"data: " + b"x" * size + b"\n\n" for size in (94, 95))
    for cut in range(1, len(fits) + 1):
        decoder = SSEDecoder(max_event_bytes=100)
        events = decoder.feed(fits[:cut]) + decoder.feed(fits[cut:])
        assert events == [SSEEvent(None, "x" * 94)]
    for cut in range(1, len(exceeds) + 1):
        decoder = SSEDecoder(max_event_bytes=100)
        with pytest.raises(SSETooLarge):
            [decoder.feed(part) for part in (exceeds[:cut], exceeds[cut:])]


def test_many_small_events_in_one_chunk_are_no_large_event() -> None:
    decoder = SSEDecoder(max_event_bytes=100)
    assert len(decoder.feed(b"data: x\n\n" * 50)) == 50


def test_an_encoded_event_reads_back() -> None:
    event = {"type": "response.output_text.delta", "delta": "a\nb\r\n\u2028 日本", "n": 2**70}
    data = encode_event(event)
    assert data.startswith(b"event: response.output_text.delta\ndata: {")
    assert data.endswith(b"}\n\n")
    (read,) = decode(data)
    assert read.event == event["type"]
    assert loads(read.data) == event


def test_a_type_cannot_smuggle_in_a_line() -> None:
    (read,) = decode(encode_event({"type": "a\r\ndata: b\n\nc"}))
    assert read.event == "a data: b  c"
    assert loads(read.data) == {"type": "a\r\ndata: b\n\nc"}
