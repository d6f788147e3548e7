"""What an answer is, and payloads that are nearly JSON."""

import pytest

from gateway.upstream.framing import Framing, decode
from gateway.wire.json import MalformedJSON

SSE, JSON_TYPE = "text/event-stream; charset=utf-8", "application/json"


def read(raw: bytes, content_type: str) -> tuple[bool, list[str]]:
    found = []
    for size in (1, len(raw) + 1):
        framing = Framing(content_type)
        events = [
            event for at in range(0, len(raw), size) for event in framing.feed(raw[at : at + size])
        ]
        events += framing.finish()
        found.append((framing.is_body, [event.data for event in events]))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("raw", "content_type", "is_body", "payloads"),
    [
        (b"data: a\n\ndata: b", SSE, False, ["a", "b"]),
        (b"data: a\n\n", JSON_TYPE, False, ["a"]),
        (b"\xef\xbb\xbf\r\n: hi\r\n\r\ndata: a", "", False, ["a"]),
        (b"id: 1\ndata: a\n\n", "", False, ["a"]),
        (b"odd: 1\ndata: a\n\n", SSE, False, ["a"]),
        (b"odd: 1\n", JSON_TYPE, True, ["odd: 1"]),
        (b' {"a": 1}\n', SSE, True, ['{"a": 1}']),
        (b"\xef\xbb\xbf[]", JSON_TYPE, True, ["[]"]),
        (b"<p>", SSE, True, ["<p>"]),
        (b"no", "", True, ["no"]),
        (b"", SSE, False, []),
        (b"", JSON_TYPE, True, []),
        (b"  \n", JSON_TYPE, True, []),
        (b"id:", SSE, False, []),
    ],
)
def test_q08_q09_what_it_is(raw, content_type, is_body, payloads):
    assert read(raw, content_type) == (is_body, payloads)


def test_q28_q30_payloads_are_mended():
    assert decode('{"a": "\t"}') == {"a": "\t"}
    assert decode(r'{"\ud83c": ["\ud83c", "\ud83c\udf89", 1.5, null]}') == {
        "\ufffd": ["\ufffd", "🎉", 1.5, None]
    }
    assert decode('{"logprob": -Infinity}') == {"logprob": None}
    assert (
        decode('{"big": 123456789012345678901234567890}')["big"] == 123456789012345678901234567890
    )


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "[" * 5000, "[" * 300 + "]" * 300])
def test_payloads_that_are_not_json(text):
    with pytest.raises(MalformedJSON):
        decode(text)
