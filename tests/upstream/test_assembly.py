"""Assembly: whatever comes in whatever order, the canonical contract holds."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.upstream.assembly import MAX_NOTES, Assembly, is_cut_json
from gateway.upstream.usage import read_usage
from tests.upstream.canonical import JSON, Canonical, Violation, check_canonical

ADDED, DONE = "response.output_item.added", "response.output_item.done"


def run(*steps: tuple[Any, ...], end: bool = True) -> Canonical:
    """Steps are (method, arguments…); without a terminal step the answer finishes cleanly."""
    assembly = Assembly()
    for method, *arguments in steps:
        getattr(assembly, method)(*arguments)
    if end:
        assembly.finish()
    return check_canonical(assembly.events())


def types(events: list[JSON]) -> list[str]:
    return [event["type"].removeprefix("response.").removeprefix("output_") for event in events]


# ------------------------------------------------------------------------------------------- order
def test_events_come_as_soon_as_they_are_certain():
    assembly = Assembly()
    assembly.text("a")
    assert types(assembly.events()) == ["item.added", "text.delta"]
    assembly.text("b")
    assert types(assembly.events()) == ["text.delta"]
    assembly.call(0, "c", "f")
    assert types(assembly.events()) == ["item.done"]
    assembly.arguments(0, "{")
    assert types(assembly.events()) == ["item.added", "function_call_arguments.delta"]
    assembly.arguments(0, "}")
    assembly.finish()
    assert types(assembly.events()) == [
        "function_call_arguments.delta",
        "item.done",
        "completed",
    ]
    assert assembly.events() == []


def test_nothing_behind_the_terminal_event():
    assembly = Assembly()
    assembly.finish()
    assembly.events()
    for method, *arguments in (
        ("text", "a"),
        ("refusal", "a"),
        ("reasoning", "a"),
        ("encrypted_reasoning", "a"),
        ("annotate", [], []),
        ("annotate_whole", [], []),
        ("seal",),
        ("call", 0, "c", "f"),
        ("arguments", 0, "{}"),
        ("complete", 0),
        ("foreign", 1, {"type": "x"}),
        ("foreign_event", {"type": "x"}, 1),
        ("foreign_done", 1, {"type": "x"}),
        ("finish",),
        ("fail", None, "again"),
    ):
        getattr(assembly, method)(*arguments)
    assert assembly.events() == []
    assert assembly.peek(0) is None


def test_a_call_of_a_failed_answer_takes_no_more():
    assembly = Assembly()
    assembly.call(0, "c", "f")
    assembly.call(1, "d", "g")
    assembly.fail("boom", "it broke")
    assembly.arguments(1, "{}")
    assembly.call(1, "d", "g")
    checked = check_canonical(assembly.events())
    assert len(checked.items) == 1
    assert assembly.notes == ["1 items behind an unfinished call were dropped"]


# ------------------------------------------------------------------------------------------- calls
def test_q26_a_complete_call_is_closed_when_another_begins():
    assembly = Assembly()
    assembly.call(0, "c", "f")
    assembly.arguments(0, "{}")
    assembly.events()
    assembly.call(1, "d", "g")
    assert types(assembly.events()) == ["item.done"]


def test_q26_an_open_call_keeps_others_waiting():
    assembly = Assembly()
    assembly.call(0, "c", "f")
    assembly.arguments(0, '{"a":')
    assembly.call(1, "d", "g")
    assembly.arguments(1, "{")
    assembly.events()
    assembly.arguments(1, "}")
    assembly.text("t")
    assembly.reasoning("r")
    assembly.reasoning("s", "summary", 5)
    assembly.reasoning("S", "summary", 3)
    assembly.refusal("no")
    assembly.text("yes")
    assert assembly.events() == []
    assembly.arguments(0, "1}")
    assembly.finish()
    items = [e["item"] for e in assembly.events() if e["type"] == DONE]
    kinds = [item["type"] for item in items]
    assert kinds == [
        *("function_call", "function_call", "message", "reasoning", "message", "message"),
    ]
    assert items[3]["summary"] == [
        {"type": "summary_text", "text": "s"},
        {"type": "summary_text", "text": "S"},
    ]


def test_q26_late_fragments():
    assembly = Assembly()
    assembly.call(0, "c", "f")
    assembly.arguments(0, '{"a":1}')
    assembly.text("t")
    for late in (" \n", "}", '{"a":1}', '"b":2'):
        assembly.arguments(0, late)
    assembly.complete(0)
    assert assembly.notes == ["5 characters of arguments came after call 'f' was finished"]
    assembly.finish()
    assert check_canonical(assembly.events()).items[0]["arguments"] == '{"a":1}'


def test_q27_text_behind_a_call():
    kinds = [
        item["type"]
        for item in run(("text", "a"), ("call", 0, "c", "f"), ("arguments", 0, "{}"), ("text", "b")).items
    ]  # fmt: skip
    assert kinds == ["message", "function_call", "message"]


def test_q17_a_cut_call_that_is_declared_done_waits_for_the_end():
    checked = run(("call", 0, "c", "f"), ("arguments", 0, '{"a":'), ("complete", 0))
    assert checked.items[0]["status"] == "incomplete"
    assert checked.terminal is not None
    assert checked.terminal["response"]["incomplete_details"] == {"reason": "max_output_tokens"}


def test_a_malformed_call_that_is_declared_done_is_closed():
    assembly = Assembly()
    assembly.call(0, "c", "f")
    assembly.arguments(0, "nope")
    assembly.events()
    assembly.complete(0)
    assert types(assembly.events()) == ["item.done"]


def test_a_waiting_call_that_is_over_ends_at_its_turn():
    assembly = Assembly()
    assembly.call(0, "c", "f")
    assembly.call(1, "d", "g")
    assembly.arguments(1, "{}")
    assembly.complete(1)
    assembly.arguments(0, "{")
    assembly.events()
    assembly.arguments(0, "}")
    assert types(assembly.events()) == [
        *("function_call_arguments.delta", "item.done"),
        *("item.added", "function_call_arguments.delta", "item.done"),
    ]


def test_a_cut_call_in_the_middle_was_malformed_when_the_end_is_clean():
    checked = run(
        ("call", 0, "c", "f"), ("arguments", 0, '{"a":'), ("call", 1, "d", "g"), ("arguments", 1, "{}")
    )  # fmt: skip
    assert [item["status"] for item in checked.items] == ["completed", "completed"]


def test_a_cut_call_in_the_middle_ends_an_answer_that_length_cut():
    checked = run(
        *[("call", 0, "c", "f"), ("arguments", 0, '{"a":'), ("call", 1, "d", "g")],
        ("finish", "max_output_tokens"),
        end=False,
    )
    assert [item["status"] for item in checked.items] == ["incomplete"]


def test_content_filter():
    checked = run(("text", "a"), ("finish", "content_filter"), end=False)
    assert checked.terminal is not None
    assert checked.terminal["response"]["incomplete_details"] == {"reason": "content_filter"}


def test_fail_keeps_the_open_item_incomplete():
    usage = read_usage({"total_tokens": 5, "output_tokens": 2})
    checked = run(
        *[("usage", usage), ("call", 0, "c", "f"), ("arguments", 0, "{}"), ("fail", None, "broke")],
        end=False,
    )
    assert checked.items[0]["status"] == "incomplete"
    assert checked.terminal == {
        "type": "response.failed",
        "response": {"error": {"code": "server_error", "message": "broke"}, "usage": usage},
    }


def test_q23_names_change_until_arguments_come():
    checked = run(
        *[("call", 0, "", "get"), ("call", 0, "c", "_it"), ("call", 0, "x", "get_it")],
        *[("arguments", 0, "{"), ("call", 0, "y", "other"), ("arguments", 0, "}")],
    )
    assert (checked.items[0]["name"], checked.items[0]["call_id"]) == ("get_it", "c")


def test_q23_another_name_behind_arguments_is_not_taken():
    waiting = [("call", 0, "c", "f"), ("call", 1, "d", "g"), ("arguments", 1, "{")]
    checked = run(*waiting, ("call", 1, "", "h"), ("arguments", 1, "}"))
    assert [item["name"] for item in checked.items] == ["f", "g"]


def test_q21_a_name_that_comes_while_others_wait():
    checked = run(
        *[("call", 0, "c", ""), ("arguments", 0, "{}"), ("text", "t"), ("call", 0, "", "f")],
        ("call", 0, "", "late"),
    )
    assert [item["type"] for item in checked.items] == ["function_call", "message"]
    assert checked.items[0]["name"] == "f"


def test_q25_a_snapshot_is_settled_when_the_next_call_begins():
    checked = run(
        *[("call", 0, "c", "f"), ("arguments", 0, '{"a":'), ("arguments", 0, '{"a":1}')],
        *[("call", 1, "d", "g"), ("arguments", 1, "{}")],
    )
    assert [item["arguments"] for item in checked.items] == ['{"a":1}', "{}"]


def test_q25_held_text_is_not_lost_when_the_answer_fails():
    checked = run(
        *[("call", 0, "c", "f"), ("arguments", 0, '{"a":'), ("arguments", 0, '{"a":')],
        ("fail", None, "broke"),
        end=False,
    )
    assert checked.items[0]["arguments"] == '{"a":{"a":'


# -------------------------------------------------------------------------------- messages, foreign
def test_seal_and_fields():
    checked = run(
        *[("seal", {"phase": "commentary"}), ("text", "a"), ("seal",), ("text", "b")],
        *[("seal", {"own": 1}), ("reasoning", "r"), ("seal",), ("reasoning", "s")],
    )
    assert [item.get("phase") for item in checked.items] == ["commentary", None, None, None]
    assert checked.items[2]["own"] == 1


def test_side_notes():
    checked = run(
        *[("text", "a"), ("annotate", [{"n": 1}], [{"p": 1}]), ("annotate_whole", [{"n": 2}], [])]
    )
    part = checked.items[0]["content"][0]
    assert (part["annotations"], part["logprobs"]) == ([{"n": 2}], [{"p": 1}])


def test_encrypted_reasoning():
    checked = run(("reasoning", "r"), ("encrypted_reasoning", "blob"))
    assert checked.items[0]["encrypted_content"] == "blob"
    assert len(checked.items) == 1


def test_foreign_items():
    item = {"type": "web_search_call", "id": "ws"}
    checked = run(
        *[("foreign", 3, item), ("foreign", 3, {"type": "again"}), ("text", "behind")],
        *[("foreign_event", {"type": "x", "output_index": 9}, 3), ("foreign_event", {"type": "y"})],
        *[("foreign_done", 3, {**item, "ok": True}), ("foreign_done", 3, item)],
        *[("foreign_event", {"type": "z"}, 3), ("foreign_event", {"type": "z"}, 4)],
    )
    assert checked.items[0] == {**item, "ok": True}
    assert checked.items[1]["type"] == "message"


def test_notes_are_limited():
    assembly = Assembly()
    for number in range(MAX_NOTES + 5):
        assembly.note(str(number))
    assert len(assembly.notes) == MAX_NOTES


def test_the_scanner_is_at_hand():
    assert is_cut_json('{"a')


# ------------------------------------------------------------------------------------- any order
SLOTS = st.integers(0, 3)
WORDS = st.sampled_from(["a", "{", "}", '{"a":', '{"a":1}', "1}", '"', "\n", "{}", "nope", "[1,"])
STEPS = st.one_of(
    st.tuples(st.just("text"), WORDS),
    st.tuples(st.just("refusal"), WORDS),
    st.tuples(st.just("reasoning"), WORDS, st.sampled_from(["text", "summary"]), SLOTS),
    st.tuples(st.just("encrypted_reasoning"), WORDS),
    st.tuples(st.just("seal")),
    st.tuples(st.just("annotate"), st.just([{}]), st.just([])),
    st.tuples(st.just("call"), SLOTS, st.sampled_from(["", "c", "d"]), st.sampled_from(["", "f"])),
    st.tuples(st.just("arguments"), SLOTS, WORDS),
    st.tuples(st.just("complete"), SLOTS),
    st.tuples(st.just("foreign"), SLOTS, st.just({"type": "x"})),
    st.tuples(st.just("foreign_event"), st.just({"type": "x.event"}), st.none() | SLOTS),
    st.tuples(st.just("foreign_done"), SLOTS, st.just({"type": "x", "ok": True})),
)
ENDS = st.sampled_from(
    [("finish",), ("finish", "max_output_tokens"), ("fail", None, "broke"), ("fail", "code", "x")]
)


@given(steps=st.lists(STEPS, max_size=40), end=ENDS)
@settings(max_examples=400, deadline=None)
def test_any_order_is_canonical(steps, end):
    run(*steps, end, end=False)


# ---------------------------------------------------------------------- the validator is a judge, too
MESSAGE = {"type": "message", "role": "assistant"}
CALL = {"type": "function_call", "call_id": "c", "name": "f"}
COMPLETED = {"type": "response.completed", "response": {"usage": None}}


def add(item: JSON, index: int = 0) -> JSON:
    return {"type": ADDED, "output_index": index, "item": item}


def text(delta: str, index: int = 0) -> JSON:
    return {"type": "response.output_text.delta", "output_index": index, "delta": delta}


def end(text: str, index: int = 0, status: str = "completed") -> JSON:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    return {
        "type": DONE,
        "output_index": index,
        "item": {**MESSAGE, "status": status, "content": [part]},
    }


@pytest.mark.parametrize(
    "events",
    [
        [],
        [COMPLETED, COMPLETED],
        [add(MESSAGE)],
        [add(MESSAGE), COMPLETED],
        [add(MESSAGE, 1)],
        [add(MESSAGE), add(MESSAGE, 1)],
        [text("a"), COMPLETED],
        [add(MESSAGE), text(""), end(""), COMPLETED],
        [add(MESSAGE), text("a", 1)],
        [add(CALL), text("a")],
        [add(MESSAGE), text("a"), end("b"), COMPLETED],
        [add(MESSAGE), text("a"), end("a", 1), COMPLETED],
        [add(MESSAGE), text("a"), end("a", 0, "done"), COMPLETED],
        [add(MESSAGE), text("a"), end("a", 0, "incomplete"), COMPLETED],
        [add(MESSAGE), text("a"), end("a"), add(MESSAGE, 2)],
        [{"type": "response.completed", "response": {"usage": None, "error": {}}}],
        [{"type": "response.failed", "response": {"usage": None, "error": {"code": ""}}}],
    ],
)
def test_the_validator_refuses(events):
    with pytest.raises(Violation):
        check_canonical(events)


def test_the_validator_accepts():
    check_canonical([add(MESSAGE), text("a"), end("a"), COMPLETED])
