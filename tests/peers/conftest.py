"""Everything below tests/peers talks to a real peer and may take minutes."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.peers)
            item.add_marker(pytest.mark.timeout(300))
