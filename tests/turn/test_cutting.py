"""Where a history is cut: no call loses its output, whatever the history looks like."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.turn.cutting import drop_oldest, split, tokens
from gateway.turn.pairing import pair

USER = {"type": "message", "role": "user", "content": "hi " * 20}
SYSTEM = {"type": "message", "role": "developer", "content": "Be kind."}
ASSISTANT = {"type": "message", "role": "assistant", "content": "ok " * 20}
REASONING = {"type": "reasoning", "summary": [], "content": []}


def call(call_id):
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def output(call_id, text="out"):
    return {"type": "function_call_output", "call_id": call_id, "output": text}


@st.composite
def histories(draw):
    """Calls are answered later, sometimes twice, sometimes never."""
    items, waiting, made = [], [], 0
    for kind in draw(st.lists(st.sampled_from("uasrcoo"), min_size=1, max_size=30)):
        if kind == "c":
            made += 1
            items.append(call(f"c{made}"))
            waiting.append(f"c{made}")
        elif kind == "o" and waiting:
            at = draw(st.integers(0, len(waiting) - 1))
            call_id = waiting[at] if draw(st.booleans()) else waiting.pop(at)
            items.append(output(call_id, "x" * draw(st.sampled_from([1, 200]))))
        else:
            items.append({"u": USER, "a": ASSISTANT, "s": SYSTEM, "r": REASONING}.get(kind, USER))
    return items


def is_whole(items):
    """Whether each output has its call before it."""
    pair(items)  # raises for an orphan
    return True


@given(histories(), st.integers(1, 400))
def test_a_cut_parts_no_call_from_its_outputs(items, threshold):
    parts = split(items, threshold)
    if parts is None:
        return
    head, tail = parts
    assert is_whole(head)
    assert is_whole(tail)
    assert len(head) + len(tail) == len(items)


@given(histories())
def test_what_is_dropped_takes_the_other_half_of_its_pair(items):
    kept = drop_oldest(items)
    if kept is None:
        return
    assert is_whole(kept)
    assert [item for item in kept if item is SYSTEM] == [item for item in items if item is SYSTEM]
    assert tokens(kept) <= tokens(items)


def test_the_tail_is_the_new_input_with_its_calls():
    items = [USER, ASSISTANT, REASONING, call("a"), call("b"), output("b"), output("a")]
    assert split(items, 1000) == (items[:2], items[2:])
    assert split([*items, ASSISTANT, USER], 1000) == ([*items, ASSISTANT], [USER])


def test_an_input_that_is_too_large_is_summarised_but_for_the_users_words():
    big = output("a", "x" * 4000)
    assert split([USER, call("a"), big], 1000) == ([USER, call("a"), big], [])
    words = {**USER, "content": "now"}
    assert split([USER, call("a"), big, words], 1000) == ([USER, call("a"), big], [words])


def test_without_a_head_there_is_no_cut():
    assert split([USER], 1000) is None
    assert split([SYSTEM, USER], 1000) is None


def test_nothing_is_left_of_one_item():
    assert drop_oldest([SYSTEM, USER]) is None
    assert drop_oldest([USER, SYSTEM, ASSISTANT, USER]) is not None
