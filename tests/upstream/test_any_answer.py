"""Answers that no server has sent yet: the events are canonical, and cuts do not matter."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.upstream.chat_stream import ChatReader
from gateway.upstream.profiles import Profile
from gateway.upstream.responses_stream import ResponsesReader
from tests.upstream.canonical import JSON, check_canonical

TYPES = st.sampled_from(["text/event-stream", "application/json", ""])
WORDS = st.sampled_from(
    [
        "",
        "a",
        "{",
        "}",
        '{"a":',
        '{"a":1}',
        "1}",
        "{}",
        " ",
        "<think>",
        "</think>",
        "é🎉",
        "\\",
        '"',
    ]
)
IDS = st.sampled_from([None, "", "x", "y", 3])
INDICES = st.sampled_from([None, 0, 1, 2, "0", True])
ODD: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "error", "item", "a"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def object_of(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[JSON]:
    """Any of the fields may be missing, any value may be of an odd kind."""
    return st.fixed_dictionaries({}, optional={k: v | ODD for k, v in fields.items()})


# ------------------------------------------------------------------------------------------- chat
FUNCTION = object_of(name=st.sampled_from(["f", "g", ""]), arguments=WORDS)
ENTRY = object_of(index=INDICES, id=IDS, function=FUNCTION, name=WORDS, arguments=WORDS)
DELTA = object_of(
    content=WORDS,
    refusal=WORDS,
    reasoning=WORDS,
    reasoning_content=WORDS,
    tool_calls=st.lists(ENTRY, max_size=2),
    function_call=FUNCTION,
    annotations=st.lists(ODD, max_size=1),
)
FINISH = st.sampled_from([None, "stop", "length", "tool_calls", "content_filter", "error", "odd"])
CHOICE = object_of(delta=DELTA, message=DELTA, finish_reason=FINISH, logprobs=ODD, usage=ODD)
USAGE = object_of(prompt_tokens=st.integers(-1, 9), completion_tokens=st.integers(0, 9))
CHUNK = object_of(
    choices=st.lists(CHOICE, min_size=1, max_size=1), usage=USAGE, timings=USAGE, x_groq=USAGE
)

# -------------------------------------------------------------------------------------- responses
PART = object_of(type=st.sampled_from(["output_text", "refusal"]), text=WORDS, refusal=WORDS)
ITEM = object_of(
    type=st.sampled_from(["message", "reasoning", "function_call", "web_search_call"]),
    id=IDS,
    call_id=IDS,
    name=st.sampled_from(["f", "g", ""]),
    arguments=WORDS,
    content=st.lists(PART, max_size=2),
    summary=st.lists(PART, max_size=2),
    encrypted_content=WORDS,
    phase=WORDS,
)
RESPONSE = object_of(
    status=st.sampled_from(["completed", "incomplete", "failed", "in_progress"]),
    output=st.lists(ITEM, max_size=3),
    incomplete_details=ODD,
    usage=USAGE,
)
EVENT = object_of(
    type=st.sampled_from(
        [
            *("output_item.added", "output_item.done", "output_text.delta", "output_text.done"),
            *("function_call_arguments.delta", "function_call_arguments.done", "refusal.delta"),
            *("reasoning_text.delta", "reasoning_summary_text.delta", "refusal.done", "odd.event"),
            *("reasoning_summary_text.done", "output_text.annotation.added", "in_progress"),
        ]
    ).map("response.".__add__),
    item=ITEM,
    item_id=IDS,
    output_index=INDICES,
    content_index=INDICES,
    summary_index=INDICES,
    delta=WORDS,
    text=WORDS,
    arguments=WORDS,
    annotation=ODD,
)
END = st.fixed_dictionaries(
    {"type": st.sampled_from(["completed", "incomplete", "failed"]).map("response.".__add__)},
    optional={"response": RESPONSE},
)


def events_of(make: Any, profile: Profile, content_type: str, chunks: list[bytes]) -> list[JSON]:
    reader = make(profile, content_type)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.finish()


def check(make: Any, raw: bytes, content_type: str, think_tags: bool, data: st.DataObject) -> None:
    profile = Profile(think_tags=think_tags)
    whole = events_of(make, profile, content_type, [raw])
    check_canonical(whole)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=8)))
    chunks = [raw[a:b] for a, b in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert events_of(make, profile, content_type, chunks) == whole


def stream_of(payloads: list[Any]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(payload).encode() for payload in payloads)


@given(chunks=st.lists(CHUNK, max_size=12), type=TYPES, think=st.booleans(), data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_chat_stream(chunks, type, think, data):
    check(ChatReader, stream_of(chunks), type, think, data)


@given(events=st.lists(EVENT, max_size=14), end=END, type=TYPES, data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_responses_stream(events, end, type, data):
    check(ResponsesReader, stream_of([*events, end]), type, False, data)


@given(body=CHUNK | RESPONSE | ODD, type=TYPES, data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_body(body, type, data):
    for make in (ChatReader, ResponsesReader):
        check(make, json.dumps(body).encode(), type, False, data)


@given(raw=st.binary(max_size=60) | st.text(max_size=40).map(str.encode), data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_bytes(raw, data):
    for make in (ChatReader, ResponsesReader):
        check(make, raw, data.draw(TYPES), False, data)
        check(make, b"data: " + raw, data.draw(TYPES), False, data)
