"""What is known of a turn when it has ended: one line of the log, and what the metrics count."""

import logging
import re
from collections.abc import Callable
from typing import Any

import msgspec

from gateway.errors import GatewayError, InternalError, UpstreamError
from gateway.tools.promotion import completed_pairs
from gateway.turn.turn import Turn
from gateway.wire.json import JSON, MalformedJSON, loads

log = logging.getLogger("gateway.turn")

# A client's id of a turn goes into our log: no more of it than an id has.
_is_id = re.compile(r"[A-Za-z0-9_.:-]{1,64}").fullmatch


class TurnFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One turn that has ended.

    Attributes:
        transport: json, sse or ws.
        outcome: the state in which it has ended.
        upstream: host and port of the model server.
        response_id: of the response.
        model: as the client named it.
        seconds: from the request to the end.
        first_event_seconds: from the request to the model server's first bytes; None without any.
        input_tokens: of them `cached_tokens` were known to the model server.
        output_tokens: what the model wrote.
        verdicts: of its custom calls' grammars.
        promotions: tools that its own input has loaded.
        error: why it has failed.
        notes: what was odd.
    """

    transport: str
    outcome: str
    upstream: str
    response_id: str
    model: str
    seconds: float
    first_event_seconds: float | None = None
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    verdicts: tuple[str, ...] = ()
    promotions: int = 0
    error: GatewayError | None = None
    notes: tuple[str, ...] = ()


Report = Callable[[TurnFacts], None]


def facts_of(turn: Turn, **known: Any) -> TurnFacts:
    """The facts of a turn; `known` is what it cannot know itself: transport, upstream and times."""
    usage = turn.response.get("usage") or {}
    details = usage.get("input_tokens_details") or {}
    return TurnFacts(
        outcome=turn.state.value,
        response_id=turn.response["id"],
        model=turn.response["model"],
        input_tokens=usage.get("input_tokens") or 0,
        cached_tokens=details.get("cached_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        verdicts=tuple(verdict.kind for verdict in turn.verdicts),
        promotions=_promotions(turn.new_items),
        error=turn.error,
        notes=tuple(turn.notes),
        **known,
    )


def turn_ids(label: str, request: JSON) -> dict[str, str]:
    """The ids that stand in each line of a turn: the connection, and the client's own turn id.

    Args:
        label: transport and id of the connection.
        request: of the client. Codex names its turns in `client_metadata` (codex-cli 0.171).
    """
    ids = {"connection": label.partition(" ")[2]}
    if turn_id := _client_turn(request.get("client_metadata")):
        ids["turn"] = turn_id
    return ids


def log_turn(facts: TurnFacts) -> None:
    """The one line of a turn; what was odd in it stands before it, at the level of debug lines."""
    for note in facts.notes:
        log.debug("note: %s", note)
    fields: dict[str, Any] = {
        "response": facts.response_id,
        "transport": facts.transport,
        "model": facts.model,
        "outcome": facts.outcome,
        "ms": round(facts.seconds * 1000),
    }
    if facts.first_event_seconds is not None:
        fields["first_ms"] = round(facts.first_event_seconds * 1000)
    fields["in"] = facts.input_tokens
    fields["out"] = facts.output_tokens
    if facts.verdicts:
        fields["verdicts"] = ",".join(facts.verdicts)
    if facts.notes:
        fields["notes"] = len(facts.notes)
    if facts.error is not None:
        fields["status"] = facts.error.status
        fields["code"] = facts.error.code or "-"
        fields["error"] = facts.error.message[:200]
    log.info("turn", extra={"fields": fields})


def log_refusal(error: GatewayError, connection: str) -> None:
    """The line of a request that has become no turn. Those that have, have one already."""
    if isinstance(error, UpstreamError | InternalError):
        return
    fields = {"status": error.status, "code": error.code or "-", "error": error.message[:200]}
    log.info("refused", extra={"fields": {"connection": connection, **fields}})


def _promotions(items: list[JSON]) -> int:
    """Tools loaded by this turn's own input. The call of a continued turn stands in its history, so
    an output counts by itself; in a full resend the pairs are counted that the input ends with."""
    pairs = completed_pairs(items)
    last = items[-1] if items else {}
    if last.get("type") != "tool_search_output":
        return 0
    loaded = {pair.call_id: len(pair.tools) for pair in pairs}
    tools = last.get("tools")
    own = len(tools) if isinstance(tools, list) else 0
    return loaded.get(last.get("call_id", ""), own)


def _client_turn(metadata: object) -> str:
    if not isinstance(metadata, dict):
        return ""
    candidate = metadata.get("turn_id")
    packed = metadata.get("x-codex-turn-metadata")
    if not candidate and isinstance(packed, str):
        try:
            inner = loads(packed)
        except MalformedJSON:
            return ""
        candidate = inner.get("turn_id") if isinstance(inner, dict) else None
    return candidate if isinstance(candidate, str) and _is_id(candidate) else ""
