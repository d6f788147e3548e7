"""What runs now, and the last turns: bounded, and for an event only a counter and one look at the clock.

Nothing of what was said is kept: names of tools, numbers, times, and errors in our own words.
"""

import asyncio
import itertools
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gateway.errors import GatewayError, UpstreamError
from gateway.server.delivery import ClientGone
from gateway.server.upstream_health import UpstreamHealth
from gateway.server.watching import Begun, TurnWatch
from gateway.server.words import in_words
from gateway.tools.namespace import flatten
from gateway.turn.turn import Turn
from gateway.wire.json import JSON

if TYPE_CHECKING:
    from gateway.server.target import Target

# What a person looks through; the log has the others.
MAX_RECENT_TURNS = 200
# One hour of the chart.
MAX_SHOWN_MINUTES = 60
# Codex with a few MCP servers declares some 40 tools; a set of 200 names would be 30 KB a turn.
MAX_SHOWN_TOOLS = 64
# A model or tool name as the client wrote it; names that long are read by nobody.
MAX_SHOWN_NAME_CHARS = 96
# The beginning of a response's id finds it in the log, and opens nothing.
SHOWN_ID_CHARS = 13

_CALLS = frozenset({"function_call", "custom_tool_call", "mcp_call", "tool_search_call"})
# No answer came at all; a refusal is an answer.
_AWAY = frozenset({"upstream_unreachable", "upstream_timeout"})


class LiveTurn(TurnWatch):
    """One turn, as the page shows it.

    Args:
        number: counts the turns of this process.
        begun: the turn at its beginning.
        health: is told how the model server behaves.
        ended: is told when this turn is over.
    """

    def __init__(
        self,
        number: int,
        begun: Begun,
        health: UpstreamHealth,
        ended: Callable[["LiveTurn", BaseException | None], None],
    ) -> None:
        self.number = number
        self._health = health
        self._on_end = ended
        self._began = time.monotonic()
        self._at = time.time()
        self._model = _shown(begun.request.get("model"))
        self._transport = begun.transport
        self._tools = _tool_names(begun.request)
        self._turn: Turn | None = None
        self._marks: dict[str, float] = {}
        self._events = 0
        self._last: float | None = None

    def made(self, turn: Turn, target: "Target") -> None:
        self._turn = turn

    def asked(self, path: str, body: bytes) -> None:
        self._mark("asked")

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        self._mark("answered")
        self._health.answered()

    def received(self, chunk: bytes) -> None:
        if "heard" not in self._marks:
            self._mark("heard")

    def sent(self, events: list[JSON]) -> None:
        now = time.monotonic()
        self._last = now - self._began
        self._events += len(events)
        # What is sent before the model server has said anything is our own `response.created`.
        if "first" not in self._marks and "heard" in self._marks:
            self._marks["first"] = self._last

    def ended(self, error: BaseException | None) -> None:
        self._mark("end")
        self._on_end(self, error)

    def _mark(self, name: str) -> None:
        self._marks[name] = time.monotonic() - self._began

    def shown(self, error: BaseException | None = None) -> JSON:
        """What the page is told of it."""
        turn = self._turn
        usage = (turn.response.get("usage") if turn else None) or {}
        marks = dict(self._marks)
        if self._last is not None:
            marks["last"] = self._last
        if "end" not in marks:
            marks["now"] = time.monotonic() - self._began
        failure = turn.error if turn is not None and turn.error is not None else error
        return {
            "number": self.number,
            "id": turn.response["id"][:SHOWN_ID_CHARS] if turn else "",
            "at": self._at,
            "model": self._model,
            "transport": self._transport,
            "state": _state(turn, error, is_over="end" in marks),
            "tools": self._tools[:MAX_SHOWN_TOOLS],
            "tool_count": len(self._tools),
            "called": _called(turn.output) if turn else {},
            "verdicts": dict(Counter(v.kind for v in turn.verdicts)) if turn else {},
            "input_tokens": usage.get("input_tokens") or 0,
            "cached_tokens": (usage.get("input_tokens_details") or {}).get("cached_tokens") or 0,
            "output_tokens": usage.get("output_tokens") or 0,
            "events": self._events,
            "ms": {name: round(seconds * 1000) for name, seconds in marks.items()},
            "error": None if failure is None else _error(failure),
        }


class Activity:
    """What one process does; a watcher of its relay.

    Args:
        health: of the model server.
    """

    def __init__(self, health: UpstreamHealth) -> None:
        # Another start, another boot: the page begins anew.
        self.boot = secrets.token_hex(8)
        self.started_at = time.time()
        self.health = health
        self._numbers = itertools.count(1)
        self._live: dict[int, LiveTurn] = {}
        self._recent: deque[JSON] = deque(maxlen=MAX_RECENT_TURNS)
        # Minute since 1970 -> outcomes.
        self._minutes: dict[int, Counter[str]] = {}
        self._total = 0

    def watch(self, begun: Begun) -> TurnWatch:
        """A turn begins."""
        live = LiveTurn(next(self._numbers), begun, self.health, self._ended)
        self._live[live.number] = live
        return live

    def shown(self, after: int = 0) -> JSON:
        """Everything, though of the turns that are over only those behind `after`."""
        recent: list[JSON] = []
        for turn in reversed(self._recent):
            if turn["order"] <= after:
                break
            recent.append(turn)
        return {
            "boot": self.boot,
            "started_at": self.started_at,
            "now": time.time(),
            "running": [live.shown() for live in self._live.values()],
            "turns": recent[::-1],
            "last": self._total,
            "minutes": [[minute, counts] for minute, counts in self._minutes.items()],
        }

    def _ended(self, live: LiveTurn, error: BaseException | None) -> None:
        del self._live[live.number]
        shown = live.shown(error)
        if shown["error"] is not None and shown["error"]["upstream"]:
            self.health.failed(shown["error"])
        # Turns end in another order than they begin: a page asks for those that ended after its last.
        self._total += 1
        self._recent.append({**shown, "order": self._total})
        minute = int(time.time() // 60)
        self._minutes.setdefault(minute, Counter())[shown["state"]] += 1
        while next(iter(self._minutes)) <= minute - MAX_SHOWN_MINUTES:
            del self._minutes[next(iter(self._minutes))]


def _state(turn: Turn | None, error: BaseException | None, *, is_over: bool) -> str:
    """The turn's own state; before it was made, and when it could not be, a word of ours."""
    if isinstance(error, ClientGone | asyncio.CancelledError):
        return turn.state.value if turn is not None and turn.is_done else "cancelled"
    if turn is not None and not (is_over and not turn.is_done):
        return turn.state.value
    return "refused" if is_over else "new"


def _error(error: BaseException) -> JSON:
    known = error if isinstance(error, GatewayError) else None
    return {
        "words": in_words(error),
        "status": known.status if known else None,
        "upstream": isinstance(error, UpstreamError),
        "away": known is not None and known.code in _AWAY,
    }


def _tool_names(request: JSON) -> list[str]:
    """The declared tools by their public names, those of `additional_tools` items included."""
    given = request.get("input")
    lists: list[tuple[Any, str]] = [(request.get("tools") or [], "tools")]
    for item in given if isinstance(given, list) else []:
        if item.get("type") == "additional_tools":
            lists.append((item.get("tools") or [], "input"))
    names = [
        _public(declared.namespace, declared.name)
        for tools, path in lists
        for declared in flatten(tools, path)
    ]
    return list(dict.fromkeys(names))


def _called(output: list[JSON]) -> dict[str, int]:
    calls = [item for item in output if item.get("type") in _CALLS]
    return dict(
        Counter(_public(call.get("namespace"), call.get("name") or "tool_search") for call in calls)
    )


def _public(namespace: str | None, name: str) -> str:
    return _shown(name if namespace is None else f"{namespace}.{name}")


def _shown(name: object) -> str:
    text = str(name)
    return text if len(text) <= MAX_SHOWN_NAME_CHARS else f"{text[:MAX_SHOWN_NAME_CHARS]}…"
