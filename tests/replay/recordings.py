"""Recordings of the real Codex CLI as exchanges: what it asked, and what it was given.

Read from tests/recordings/codex (one JSON object a line; its README has the format).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JSON = dict[str, Any]

FOLDER = Path(__file__).resolve().parents[1] / "recordings" / "codex"
# They end in `compaction_trigger` or carry a `compaction` item.
REMOTE_COMPACTION = (
    "10_auto_compact_v2_openai_base_url_ws",
    "11_auto_compact_v2_sse",
    "v0147_compact_named_ws",
)


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.jsonl"))


@dataclass
class Exchange:
    """One request of the client and the recorded answer.

    Attributes:
        connection: the socket it went over; requests of one number share a socket.
        request: the body, without the frame's `type`.
        response_id: what the recorded server called its response.
        items: the output items of the recorded answer, as they were done.
        outcome: type of its last event (`response.completed`, `error`, …), "" when there was none.
    """

    connection: int
    request: JSON
    response_id: str = ""
    items: list[JSON] = field(default_factory=list)
    outcome: str = ""

    @property
    def warms_up(self) -> bool:
        return self.request.get("generate") is False

    @property
    def compacts(self) -> bool:
        return any(item.get("type") == "compaction_trigger" for item in self.request["input"])


def read(name: str) -> list[Exchange]:
    """The exchanges of a recording in the order in which they began."""
    exchanges: list[Exchange] = []
    latest: dict[int, Exchange] = {}
    for row in _rows(name):
        if request := _request(row):
            latest[row["conn"]] = Exchange(row["conn"], request)
            exchanges.append(latest[row["conn"]])
        for event in _events(row):
            if exchange := latest.get(row["conn"]):
                _take(exchange, event)
    return exchanges


def _rows(name: str) -> Iterator[JSON]:
    for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _request(row: JSON) -> JSON | None:
    if row["dir"] != "c2s" or row["kind"] not in ("text", "request") or row.get("method") == "GET":
        return None
    body = json.loads(row["text"])
    return {key: value for key, value in body.items() if key != "type"}


def _events(row: JSON) -> Iterator[JSON]:
    if row["dir"] != "s2c":
        return
    if row["kind"] == "text":
        yield json.loads(row["text"])
    elif row["kind"] == "sse":
        for line in row["text"].splitlines():
            if line.startswith("data: {"):
                yield json.loads(line.removeprefix("data: "))


def _take(exchange: Exchange, event: JSON) -> None:
    kind = event["type"]
    if kind == "response.created":
        exchange.response_id = event["response"]["id"]
    elif kind == "response.output_item.done":
        exchange.items.append(event["item"])
    elif kind in ("response.completed", "response.failed", "response.incomplete", "error"):
        exchange.response_id = event.get("response", {}).get("id", exchange.response_id)
        exchange.outcome = kind
