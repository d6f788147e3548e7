"""What every test needs: hypothesis without chance, and nothing of the developer's own state.

Rooms keep fixtures in a conftest of their own.
"""

from collections.abc import Iterator

import pytest
from hypothesis import settings

# Derandomised, so that a red run is red again; no deadline, since shared cores are slow at times.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A gateway that a test starts keeps its store in a folder of the test run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("STATE_DIRECTORY", raising=False)
        yield
