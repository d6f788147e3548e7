"""Packed rows: what comes out is what went in, or nothing."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.store.encoding import Damaged, Packed, pack, unpack_link, unpack_row
from gateway.store.protocol import Row
from tests.store.rows import noise, row

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=10,
)
objects = st.dictionaries(st.text(st.characters(codec="utf-8")), values, max_size=3)


def unpacked(kept: Row, packed: Packed) -> Row:
    return unpack_row(kept.id, kept.owner, kept.previous_id, kept.created_at, packed)


@given(
    response=objects,
    items=st.lists(objects, max_size=2),
    prefix=st.lists(objects, max_size=2),
    over=st.booleans(),
)
def test_any_row_comes_back(response: dict, items: list, prefix: list, over: bool) -> None:
    kept = msgspec.structs.replace(
        row("a"), response=response, input=items, given=prefix, prefix=items, starts_over=over
    )
    assert unpacked(kept, pack(kept)) == kept
    link = unpack_link("a", None, pack(kept).items)
    assert (link.input, link.given, link.starts_over) == (items, prefix, over)


@pytest.mark.parametrize("output", [None, [], [{"type": "message"}], "text"])
def test_every_kind_of_output_comes_back(output: object) -> None:
    for given_items in ([], [{"type": "message"}]):
        response = {"id": "a", "output": output}
        kept = msgspec.structs.replace(row("a"), response=response, given=given_items)
        assert unpacked(kept, pack(kept)) == kept


def test_output_is_there_once() -> None:
    text = noise(20_000)
    packed = pack(row("a", text=text))
    assert len(packed.items) + len(packed.response) < 12_000


def test_one_changed_byte_anywhere_is_noticed() -> None:
    kept = row("a")
    packed = pack(kept)
    for part in (0, 1):
        for at in range(len(packed[part])):
            parts = list(packed)
            parts[part] = packed[part][:at] + bytes([packed[part][at] ^ 1]) + packed[part][at + 1 :]
            with pytest.raises(Damaged):
                unpacked(kept, Packed(*parts))


def test_every_cut_is_noticed() -> None:
    kept = row("a")
    packed = pack(kept)
    for at in range(len(packed.items)):
        with pytest.raises(Damaged):
            unpack_link("a", None, packed.items[:at])
    for at in range(len(packed.response)):
        with pytest.raises(Damaged):
            unpacked(kept, Packed(packed.items, packed.response[:at]))


def test_parts_of_another_row_are_noticed() -> None:
    kept, other = row("a"), pack(row("b"))
    with pytest.raises(Damaged):
        unpacked(kept, other)
    with pytest.raises(Damaged):
        unpacked(kept, Packed(pack(kept).response, pack(kept).items))
