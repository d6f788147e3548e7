"""Output items in flight, one kind at a time."""

import pytest

from gateway.errors import InternalError
from gateway.tools import function
from gateway.tools.row import CallIds
from gateway.turn.items import Call, Foreign, ItemSlot, Message, Reasoning
from gateway.turn.state import ItemState, ItemTrigger


def new_id(prefix):
    return f"{prefix}_1"


def text(delta, **fields):
    return {"type": "response.output_text.delta", "output_index": 9, "delta": delta, **fields}


def refusal(delta):
    return {"type": "response.refusal.delta", "output_index": 9, "delta": delta}


def raw(delta):
    return {"type": "response.reasoning_text.delta", "output_index": 9, "delta": delta}


def summary(delta, index):
    kind = "response.reasoning_summary_text.delta"
    return {"type": kind, "output_index": 9, "summary_index": index, "delta": delta}


def types(events):
    return [event["type"].removeprefix("response.") for event in events]


def feed(item, *deltas):
    return [event for delta in deltas for event in item.delta(delta)]


def test_a_message_of_text():
    item = Message(2, new_id)
    zero = {"id": "msg_1", "type": "message", "status": "in_progress", "role": "assistant"}
    assert item.open() == [
        {
            "type": "response.output_item.added",
            "output_index": 2,
            "item": {**zero, "content": []},
        }
    ]
    at = {"item_id": "msg_1", "output_index": 2, "content_index": 0}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    assert feed(item, text("a"), text("b", logprobs=[{"token": "b"}])) == [
        {"type": "response.content_part.added", **at, "part": part},
        {"type": "response.output_text.delta", **at, "delta": "a", "logprobs": []},
        {"type": "response.output_text.delta", **at, "delta": "b", "logprobs": [{"token": "b"}]},
    ]
    events, done = item.close({"content": [{"type": "output_text", "text": "ab"}]})
    whole = {**part, "text": "ab"}
    assert events == [
        {"type": "response.output_text.done", **at, "logprobs": [], "text": "ab"},
        {"type": "response.content_part.done", **at, "part": whole},
        {"type": "response.output_item.done", "output_index": 2, "item": done},
    ]
    assert done == {**zero, "status": "completed", "content": [whole]}


def test_annotations_and_logprobs_of_the_done_item_are_kept():
    item = Message(0, new_id)
    item.open()
    feed(item, text("a"))
    notes = [{"type": "url_citation", "url": "u"}, {"type": "file_path", "file_id": "f"}]
    source = {
        "type": "output_text",
        "text": "a",
        "annotations": notes,
        "logprobs": [{"token": "a"}],
    }
    events, done = item.close({"content": [source]})
    assert done["content"] == [source]
    annotated = events[:2]
    assert types(annotated) == ["output_text.annotation.added"] * 2
    assert [(e["annotation_index"], e["annotation"]) for e in annotated] == list(enumerate(notes))


def test_a_refusal_is_the_second_part():
    item = Message(0, new_id)
    item.open()
    events = feed(item, text("well"), refusal("I "), refusal("won't"))
    assert types(events) == [
        "content_part.added",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "content_part.added",
        "refusal.delta",
        "refusal.delta",
    ]
    assert "logprobs" not in events[-1]
    end, done = item.close({})
    assert types(end) == ["refusal.done", "content_part.done", "output_item.done"]
    assert end[0]["refusal"] == "I won't"
    assert {event["content_index"] for event in end[:2]} == {1}
    assert [part["type"] for part in done["content"]] == ["output_text", "refusal"]


@pytest.mark.parametrize("source", [{}, {"content": None}, {"content": []}])
def test_an_empty_message(source):
    item = Message(0, new_id)
    item.open()
    events, done = item.close(source)
    assert types(events) == ["output_item.done"]
    assert done["content"] == []


def test_a_cut_message_is_closed_as_incomplete():
    item = Message(0, new_id)
    item.open()
    feed(item, text("half"))
    events, done = item.cut({"status": "incomplete"})
    assert types(events) == ["output_text.done", "content_part.done", "output_item.done"]
    assert done["status"] == "incomplete"
    assert done["content"][0]["text"] == "half"


def test_an_earlier_snapshot_is_not_changed_later():
    item = Message(0, new_id)
    (added,) = item.open()
    feed(item, text("a"), refusal("b"))
    item.close({})
    assert added["item"]["content"] == []
    assert added["item"]["status"] == "in_progress"


def test_reasoning_with_raw_text_and_summaries():
    item = Reasoning(1, new_id)
    assert item.open()[0]["item"] == {"id": "rs_1", "type": "reasoning", "summary": []}
    events = feed(item, raw("t"), raw("u"), summary("a", 0), summary("b", 0), summary("c", 1))
    assert types(events) == [
        "content_part.added",
        "reasoning_text.delta",
        "reasoning_text.delta",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
    ]
    assert events[0]["part"] == {"type": "reasoning_text", "text": ""}
    end, done = item.close({"encrypted_content": None})
    assert types(end) == [
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "reasoning_text.done",
        "content_part.done",
        "output_item.done",
    ]
    assert done == {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in ("ab", "c")],
        "content": [{"type": "reasoning_text", "text": "tu"}],
    }


def test_summary_indexes_are_ours():
    item = Reasoning(0, new_id)
    item.open()
    events = feed(item, summary("a", 0), summary("b", 2), summary("c", 2))
    assert [e["summary_index"] for e in events if "delta" in e] == [0, 1, 1]
    _, done = item.close({})
    assert [part["text"] for part in done["summary"]] == ["a", "bc"]
    assert "content" not in done


def test_encrypted_reasoning_reaches_the_client():
    item = Reasoning(0, new_id)
    item.open()
    events, done = item.close({"encrypted_content": "sealed"})
    assert done["encrypted_content"] == "sealed"
    assert types(events) == ["output_item.done"]


def test_cut_reasoning_is_closed():
    item = Reasoning(0, new_id)
    item.open()
    feed(item, raw("t"))
    events, _ = item.cut({"status": "incomplete"})
    assert types(events) == ["reasoning_text.done", "content_part.done", "output_item.done"]


def test_a_call_gives_its_stream_all_fragments():
    ids = CallIds(new_id=new_id, call_id="call_1", output_index=0)
    done, cut = (Call(function.open_unknown({"name": "f"}, ids)) for _ in range(2))
    delta = {"type": "response.function_call_arguments.delta", "output_index": 9}
    for item in (done, cut):
        assert types(item.open()) == ["output_item.added"]
        assert (
            types(feed(item, {**delta, "delta": '{"a'}, {**delta, "delta": '":1}'}))
            == ["function_call_arguments.delta"] * 2
        )
    assert done.close({})[1]["arguments"] == '{"a":1}'
    events, item = cut.cut({})
    assert events == []
    assert (item["arguments"], item["status"]) == ('{"a":1}', "incomplete")


FOREIGN = {"type": "web_search_call", "status": "in_progress", "action": {"query": "x"}, "new": 1}


@pytest.mark.parametrize(("fields", "own_id"), [({}, "item_1"), ({"id": "ws_7"}, "ws_7")])
def test_a_foreign_item_passes_with_all_its_fields(fields, own_id):
    item = Foreign(3, new_id, {**FOREIGN, **fields})
    known = {**FOREIGN, "id": own_id}
    assert item.open() == [{"type": "response.output_item.added", "output_index": 3, "item": known}]
    inner = {"type": "response.web_search_call.searching", "output_index": 0, "extra": True}
    assert item.delta(inner) == [{**inner, "output_index": 3}]
    assert item.delta({**inner, "item_id": "up"}) == [
        {**inner, "output_index": 3, "item_id": own_id}
    ]
    done = {**known, "status": "completed"}
    assert item.close({**FOREIGN, "status": "completed"}) == (
        [{"type": "response.output_item.done", "output_index": 3, "item": done}],
        done,
    )


def test_a_foreign_item_that_upstream_calls_incomplete_is_done_all_the_same():
    item = Foreign(0, new_id, FOREIGN)
    events, done = item.cut({**FOREIGN, "status": "incomplete"})
    assert types(events) == ["output_item.done"]
    assert done == {**FOREIGN, "id": "item_1", "status": "incomplete"}


def test_a_foreign_item_that_never_ends_is_not_done():
    item = Foreign(0, new_id, FOREIGN)
    assert item.cut({"status": "incomplete"}) == (
        [],
        {**FOREIGN, "id": "item_1", "status": "incomplete"},
    )


def test_a_slot_knows_its_state():
    slot = ItemSlot(Message(0, new_id))
    assert slot.state is ItemState.OPEN
    slot.advance(ItemTrigger.DONE)
    assert slot.state is ItemState.DONE
    with pytest.raises(InternalError):
        slot.advance(ItemTrigger.DELTA)
