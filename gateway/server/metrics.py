"""What is counted: for Prometheus, a few additions a turn and nothing an event.

Labels take their values from tables of ours, or from the first few that were seen: no client and no
model server can make series without bound. Several workers write into files of one folder
(prometheus-client's multiprocess mode), so that any of them answers for all.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, values
from prometheus_client.exposition import choose_encoder
from prometheus_client.multiprocess import MultiProcessCollector

from gateway.errors import UpstreamError
from gateway.server.facts import TurnFacts

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
# Codes of errors are the model server's own words; after so many different ones they are "other".
MAX_CODES = 40
MAX_CODE_CHARS = 64
# How often the loop's lag is measured, and what is open is counted.
PULSE_SECONDS = 0.5

# A cached prompt answers in 50 ms, a prefill without a GPU takes minutes.
_FIRST_EVENT = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TURN = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_STORE = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5)
_LAG = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5)
_VERDICTS = frozenset(("valid", "unwrapped", "invalid", "unchecked"))


def share_between_workers(folder: Path) -> None:
    """From now on metrics are files in this folder: to be called once, before workers are forked."""
    os.environ[FOLDER_VARIABLE] = str(folder)
    # The library looks at the variable when it is first imported, which is long over.
    values.ValueClass = values.get_value_class()  # type: ignore[no-untyped-call]  # has no types


class Metrics:
    """All that is counted in this process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._codes: set[str] = set()
        own = self._registry
        self._turns = Counter(
            "gateway_turns",
            "Turns that have ended.",
            ("transport", "outcome", "upstream"),
            registry=own,
        )
        self._first_event = Histogram(
            "gateway_first_event_seconds",
            "From a request to the model server's first bytes.",
            ("transport",),
            buckets=_FIRST_EVENT,
            registry=own,
        )
        self._turn_seconds = Histogram(
            "gateway_turn_seconds",
            "From a request to the end of its turn.",
            ("transport",),
            buckets=_TURN,
            registry=own,
        )
        self._tokens = Counter(
            "gateway_tokens",
            "Tokens as the model server counts them; cached_input is a part of input.",
            ("kind", "upstream"),
            registry=own,
        )
        self._verdicts = Counter(
            "gateway_custom_calls",
            "Custom tool calls, by what their grammar says of them.",
            ("verdict",),
            registry=own,
        )
        self._promotions = Counter(
            "gateway_promoted_tools", "Deferred tools loaded by tool_search.", registry=own
        )
        self._upstream_errors = Counter(
            "gateway_upstream_errors",
            "Turns that the model server has failed.",
            ("code", "upstream"),
            registry=own,
        )
        self._refusals = Counter(
            "gateway_refusals", "Requests refused at the door.", ("reason",), registry=own
        )
        self._store_seconds = Histogram(
            "gateway_store_seconds",
            "Operations of the store.",
            ("operation",),
            buckets=_STORE,
            registry=own,
        )
        self._store_failures = Counter(
            "gateway_store_failures",
            "Operations of the store that have failed.",
            ("operation",),
            registry=own,
        )
        self._sockets = self._gauge("gateway_open_sockets", "WebSockets that are open.")
        self._lanes = self._gauge("gateway_open_lanes", "Lanes of the open WebSockets.")
        self._lag = Histogram(
            "gateway_event_loop_lag_seconds",
            "How much later than asked the event loop comes back.",
            buckets=_LAG,
            registry=own,
        )
        if FOLDER_VARIABLE not in os.environ:
            # Memory, CPU and open files: of the one process that there is.
            ProcessCollector(registry=own)

    def count_turn(self, facts: TurnFacts) -> None:
        """A turn has ended."""
        transport, upstream = facts.transport, facts.upstream
        self._turns.labels(transport, facts.outcome, upstream).inc()
        self._turn_seconds.labels(transport).observe(facts.seconds)
        if facts.first_event_seconds is not None:
            self._first_event.labels(transport).observe(facts.first_event_seconds)
        for kind, count in (
            ("input", facts.input_tokens),
            ("cached_input", facts.cached_tokens),
            ("output", facts.output_tokens),
        ):
            if count > 0:
                self._tokens.labels(kind, upstream).inc(count)
        self.count_verdicts(facts.verdicts)
        if facts.promotions:
            self._promotions.inc(facts.promotions)
        if isinstance(facts.error, UpstreamError):
            self._upstream_errors.labels(self._code(facts.error), upstream).inc()

    def count_verdicts(self, kinds: Iterable[str]) -> None:
        """What grammars have said of custom calls."""
        for kind in kinds:
            self._verdicts.labels(kind if kind in _VERDICTS else "other").inc()

    def count_refusal(self, reason: str) -> None:
        """A request was refused at the door; the reasons are a table of `server/access.py`."""
        self._refusals.labels(reason).inc()

    def observe_store(self, operation: str, seconds: float, *, has_failed: bool) -> None:
        """The store has done something, or failed to."""
        self._store_seconds.labels(operation).observe(seconds)
        if has_failed:
            self._store_failures.labels(operation).inc()

    def show_open(self, sockets: int, lanes: int) -> None:
        """What is open now, in this process."""
        self._sockets.set(sockets)
        self._lanes.set(lanes)

    async def pulse(self, count_open: Callable[[], tuple[int, int]]) -> None:
        """Measure the loop's lag, and look at what is open, again and again until cancelled."""
        while True:
            asked = time.monotonic()
            await asyncio.sleep(PULSE_SECONDS)
            self._lag.observe(max(0.0, time.monotonic() - asked - PULSE_SECONDS))
            self.show_open(*count_open())

    def page(self, accept: str) -> tuple[bytes, str]:
        """All of it, of every worker, as the scraper wants it: the body and its content type."""
        encode, content_type = choose_encoder(accept)
        registry = self._registry
        if FOLDER_VARIABLE in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]  # has no types
        return encode(registry), content_type

    def _gauge(self, name: str, text: str) -> Gauge:
        # livesum: of the workers that live, added up.
        return Gauge(name, text, registry=self._registry, multiprocess_mode="livesum")

    def _code(self, error: UpstreamError) -> str:
        """A label out of an error's code, of which there are not too many."""
        code = (error.code or f"status_{error.status}")[:MAX_CODE_CHARS]
        if code not in self._codes:
            if len(self._codes) >= MAX_CODES:
                return "other"
            self._codes.add(code)
        return code
