"""The events that the gateway makes, against the types of the stream checker's rules."""

import pytest

from gateway.wire import events

PART = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
AT = {"item_id": "msg_1", "output_index": 2}


@pytest.mark.parametrize(
    ("made", "event"),
    [
        (
            events.item_added(2, {"id": "x"}),
            {"type": "response.output_item.added", "output_index": 2, "item": {"id": "x"}},
        ),
        (
            events.item_done(2, {"id": "x"}),
            {"type": "response.output_item.done", "output_index": 2, "item": {"id": "x"}},
        ),
        (
            events.part_added("msg_1", 2, 1, PART),
            {"type": "response.content_part.added", **AT, "content_index": 1, "part": PART},
        ),
        (
            events.part_done("msg_1", 2, 1, PART),
            {"type": "response.content_part.done", **AT, "content_index": 1, "part": PART},
        ),
        (
            events.delta("reasoning_text", "msg_1", 2, "hi", content_index=0),
            {"type": "response.reasoning_text.delta", **AT, "content_index": 0, "delta": "hi"},
        ),
        (
            events.done("output_text", "msg_1", 2, "text", "hi", content_index=0, logprobs=[]),
            {
                "type": "response.output_text.done",
                **AT,
                "content_index": 0,
                "logprobs": [],
                "text": "hi",
            },
        ),
        (
            events.done("custom_tool_call_input", "msg_1", 2, "input", "hi"),
            {"type": "response.custom_tool_call_input.done", **AT, "input": "hi"},
        ),
        (
            events.summary_part("added", "msg_1", 2, 3, ""),
            {
                "type": "response.reasoning_summary_part.added",
                **AT,
                "summary_index": 3,
                "part": {"type": "summary_text", "text": ""},
            },
        ),
        (
            events.annotation_added("msg_1", 2, 0, 4, {"type": "file_path"}),
            {
                "type": "response.output_text.annotation.added",
                **AT,
                "content_index": 0,
                "annotation_index": 4,
                "annotation": {"type": "file_path"},
            },
        ),
        (
            events.lifecycle("created", {"id": "resp_1"}),
            {"type": "response.created", "response": {"id": "resp_1"}},
        ),
    ],
)
def test_shapes(made, event):
    assert made == event


def test_numbers_are_the_turns_business():
    assert "sequence_number" not in events.lifecycle("created", {})
