"""The stream checker: a judge of public streams that is kept outside the repository.

It stands beside it, in `../shared/tools/`, or where RESPONSES_GATEWAY_SHARED says. A test that needs
it fails with words when it is missing; none is skipped.
"""

import importlib.util
import os
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

JSON = dict[str, Any]

REPO = Path(__file__).resolve().parents[1]
VARIABLE = "RESPONSES_GATEWAY_SHARED"
# I5 (an item that was added but never done) is our decision for a call that was cut off: clients run
# a call at its done event. L8 to X1 are warnings, which are not asked for.
CUT_CALL_RULE = "I5"


def shared_folder() -> Path:
    return Path(os.environ.get(VARIABLE) or REPO.parent / "shared")


@cache
def stream_checker() -> ModuleType:
    """The checker's module.

    Raises:
        AssertionError: it is not there.
    """
    path = shared_folder() / "tools" / "stream_checker.py"
    assert path.is_file(), f"the stream checker is missing: {path} (set {VARIABLE} to its folder)"
    spec = importlib.util.spec_from_file_location("stream_checker", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Its dataclasses look their module up by name.
    sys.modules["stream_checker"] = module
    spec.loader.exec_module(module)
    return module


def check_stream(
    frames: Iterable[Any],
    *,
    transport: str = "sse",
    request: JSON | None = None,
    ignore: Sequence[str] = (),
) -> None:
    """Fail with every ERROR that the checker finds in a stream of events (or frames of a socket).

    Args:
        frames: events; or `("s2c" | "c2s", frame)`; or `("s2c", event, name of the SSE event)`.
        transport: `sse` or `ws`.
        request: the client's create request, for the rules about what is echoed and restored.
        ignore: rules that do not count here.
    """
    checker = stream_checker()
    listed = [checker.Frame(*f) if isinstance(f, tuple) else f for f in frames]
    report = checker.Report(ignore=ignore)
    checker.check_events(listed, transport, request=request, report=report)
    _fail_on_errors(report)


def check_response(response: JSON, *, request: JSON | None = None) -> None:
    """Fail with every ERROR in a blocking JSON response."""
    _fail_on_errors(stream_checker().check_response(response, request))


def _fail_on_errors(report: Any) -> None:
    errors = report.errors()
    assert not errors, "\n".join(str(violation) for violation in errors)
