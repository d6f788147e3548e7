"""Rows of the tool table."""

import pytest

from gateway.tools.row import Row, restored


def row(namespace):
    return Row(
        kind="function",
        name="f",
        namespace=namespace,
        upstream="up",
        declaration={"type": "function", "name": "f"},
        path="tools[0]",
    )


@pytest.mark.parametrize(
    ("namespace", "keys"), [(None, {"name": "f"}), ("ns", {"name": "f", "namespace": "ns"})]
)
def test_a_call_is_restored_to_its_public_name(namespace, keys):
    assert row(namespace).restored() == keys == restored(namespace, "f")
    assert row(namespace).public == (namespace, "f")


def test_rows_are_neither_withheld_nor_loaded_unless_told():
    assert not row(None).is_withheld
    assert not row(None).is_loaded
