"""The map of call ids: nine letters or digits, one to one, the same every turn (Q50)."""

import re

from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream import call_ids
from gateway.upstream.call_ids import FORMS, Alnum9, Keep

NINE = re.compile(r"[A-Za-z0-9]{9}")


def test_q50_an_id_that_fits_is_kept():
    assert Alnum9()("abcDEF123") == "abcDEF123"


def test_q50_other_ids_become_nine_letters_or_digits_and_stay_the_same():
    first, second = Alnum9(), Alnum9()
    for call_id in ("call_1", "", "functions.x:0", "ü" * 40, "chatcmpl-tool-1"):
        assert NINE.fullmatch(first(call_id))
        assert first(call_id) == first(call_id) == second(call_id)


@given(st.lists(st.text(max_size=12), unique=True))
def test_q50_the_map_is_one_to_one(ids):
    ids_for_mistral = Alnum9()
    assert len({ids_for_mistral(call_id) for call_id in ids}) == len(ids)


def test_q50_collisions_are_resolved_in_order(monkeypatch):
    digests = {"a": "AAAAAAAAA", "b": "AAAAAAAAA", "b\n1": "AAAAAAAAA", "b\n2": "BBBBBBBBB"}
    monkeypatch.setattr(call_ids, "_digest", digests.__getitem__)
    ids = Alnum9()
    assert [ids("a"), ids("b"), ids("a")] == ["AAAAAAAAA", "BBBBBBBBB", "AAAAAAAAA"]


def test_q50_an_own_id_gives_way_to_a_mapped_one_that_came_first():
    ids = Alnum9()
    mapped = ids("call_1")
    other = ids(mapped)
    assert other != mapped
    assert NINE.fullmatch(other)


def test_a_copy_goes_on_alone():
    ids = Alnum9()
    first = ids("call_1")
    twin = ids.copy()
    assert twin("call_1") == first
    twin(ids("call_2") + "x")
    assert ids("call_1") == first


def test_ids_are_kept_where_any_will_do():
    keep = Keep()
    assert keep("functions.x:0") == "functions.x:0"
    assert keep.copy() is keep
    assert set(FORMS) == {"keep", "alnum9"}
