"""Upstream names: 64 characters of a small alphabet, given once, and the same turn after turn."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.tools.names import (
    HASH_CHARS,
    MAX_NAME_CHARS,
    SEARCH_KEY,
    NameBook,
    NameRule,
    hashed_name,
    plain_name,
    public_key,
)

ACCEPTED = re.compile(r"[A-Za-z0-9_-]{1,64}")
HASHED = re.compile(rf".*_[0-9a-f]{{{HASH_CHARS}}}", re.DOTALL)

PUBLIC = st.tuples(
    st.none() | st.sampled_from(["a", "a__b", "mcp__weather", "x" * 70, "é"]),
    st.sampled_from(["b", "b__c", "c", "a__b", "shell", "y" * 90, "y" * 91, "naïve", "na.ve"])
    | st.text(min_size=1, max_size=100),
)


@pytest.mark.parametrize(
    ("namespace", "name", "upstream"),
    [
        (None, "shell", "shell"),
        (None, "a-b_C9", "a-b_C9"),
        ("mcp__weather", "get_forecast", "mcp__weather__get_forecast"),
        (None, "x" * 64, "x" * 64),
        ("n" * 30, "m" * 32, "n" * 30 + "__" + "m" * 32),
    ],
)
def test_a_fitting_name_is_plain(namespace, name, upstream):
    assert plain_name(namespace, name) == upstream


@pytest.mark.parametrize(
    ("namespace", "name", "start"),
    [
        (None, "x" * 65, "x" * 51),
        ("n" * 30, "m" * 33, "n" * 30 + "__" + "m" * 19),
        (None, "get.forecast", "get_forecast"),
        ("ns.x", "m", "ns_x__m"),
        (None, "naïve", "na_ve"),
        (None, "", ""),
    ],
)
def test_a_name_that_loses_something_ends_in_a_hash(namespace, name, start):
    given_name = plain_name(namespace, name)
    assert ACCEPTED.fullmatch(given_name)
    assert given_name[: -HASH_CHARS - 1] == start
    assert HASHED.fullmatch(given_name)


def test_the_hash_knows_both_halves():
    names = {
        plain_name("a" * 60, "b" * 60),
        plain_name("a" * 60, "b" * 61),
        plain_name("a" * 61, "b" * 60),
        plain_name(None, "a" * 60 + "__" + "b" * 60),
        plain_name("a" * 60 + "__b", "b" * 57),
        hashed_name("a", "b", "same"),
        hashed_name(None, "b", "same"),
    }
    assert len(names) == 7


def test_a_server_may_want_less():
    rule = NameRule(max_length=32, first_letter=True)
    assert plain_name(None, "_x", rule).startswith("f_x_")
    assert plain_name(None, "9", rule).startswith("f9_")
    assert plain_name(None, "x", rule) == "x"
    assert len(plain_name("mcp__weather", "m" * 40, rule)) == 32


@pytest.mark.parametrize(
    ("namespace", "key"), [(None, None), ("functions", None), ("function", "function")]
)
def test_functions_is_the_top_level(namespace, key):
    assert public_key(namespace, "x") == (key, "x")


def test_the_first_keeps_the_plain_name():
    book = NameBook()
    assert book.give("a", "b__c") == "a__b__c"
    second, third = book.give("a__b", "c"), book.give(None, "a__b__c")
    assert HASHED.fullmatch(second)
    assert HASHED.fullmatch(third)
    assert len({"a__b__c", second, third}) == 3
    assert book.give("a__b", "c") == second


def test_a_declared_name_may_look_like_a_hashed_one():
    hashed = hashed_name("a", "b", "a__b")
    again = hashed_name("a", f"b\0{hashed}", "a__b")
    book = NameBook()
    taken = [book.give(None, name) for name in ("a__b", hashed, again)]
    own = book.give("a", "b")
    assert own not in taken
    assert HASHED.fullmatch(own)
    assert book.give("a", "b") == own


def test_the_search_has_a_key_that_no_tool_can_have():
    book = NameBook()
    assert book.give(None, "tool_search") == "tool_search"
    assert HASHED.fullmatch(book.claim(SEARCH_KEY, "tool_search"))
    assert book.owner("tool_search") == (None, "tool_search")
    assert book.owner("never given") is None


@given(st.lists(PUBLIC, max_size=30))
def test_names_are_accepted_unique_and_lead_back(publics):
    book = NameBook()
    upstream = {public: book.give(*public) for public in publics}
    assert all(ACCEPTED.fullmatch(name) for name in upstream.values())
    assert len(set(upstream.values())) == len(upstream)
    assert all(book.owner(name) == public for public, name in upstream.items())


@given(st.lists(PUBLIC, max_size=12), st.lists(PUBLIC, max_size=12))
def test_names_stay_as_tools_are_added(earlier, later):
    first, second = NameBook(), NameBook()
    before = [first.give(*public) for public in earlier]
    after = [second.give(*public) for public in [*earlier, *later]]
    assert after[: len(before)] == before
    assert all(len(name) <= MAX_NAME_CHARS for name in after)
