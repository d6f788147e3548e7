"""The rows of a run as one table: the figure, the ratio to the bare relay, the target, and whether it is met."""

from collections.abc import Callable
from typing import Any

Row = dict[str, Any]

RATIO = {"paced": 1.25, "burst": 1.6}
PER_CORE = {"paced": 20_000, "burst": 120_000}
FIRST_P50_MS, FIRST_P99_MS = 0.7, 3.0
IDLE_MB, SOCKET_KB = 55, 30
RESEND_MS, CONTINUED_RATIO = 4.0, 1.3
WORKERS_RATIO = 1.7
LITELLM_RATIO = 20

TITLE = f"{'work':<44}{'figure':>30}  {'bare relay':>12} {'ratio':>6}  target"


def show(rows: list[Row]) -> list[str]:
    """One line a figure."""
    return [line for row in rows for line in _SHOW[row["work"]](row, rows)]


def _line(name: str, figure: str, bare: str = "", ratio: str = "", target: str = "") -> str:
    return f"{name:<44}{figure:>30}  {bare:>12} {ratio:>6}  {target}".rstrip()


def _target(words: str, *, is_met: bool) -> str:
    return f"{words} {'met' if is_met else 'MISSED'}"


def _cost(row: Row, rows: list[Row]) -> list[str]:
    ours, bare = row["gateway"], row["bare"]
    ratio = ours["us_per_event"] / bare["us_per_event"]
    name = f"{row['work']} {row['kind']} {row['dialect']} {row['transport']} x {row['streams']}"
    per_core = ours["events_per_core_second"]
    target = ""
    if row["streams"] > 1:  # one stream leaves the core idle between its events
        least, most = PER_CORE[row["work"]], RATIO[row["work"]]
        target = _target(f"ratio {most}", is_met=ratio <= most)
        target += ", " + _target(f"{least:,} a core", is_met=per_core >= least)
    figure = f"{ours['us_per_event']:.1f} us, {per_core:,.0f}/core s"
    shown = f"{bare['us_per_event']:.1f} us"
    rss = f"RSS {ours['rss_mb']:.0f} MB"
    return [_line(name, figure, shown, f"{ratio:.2f}", "; ".join(filter(None, (target, rss))))]


def _first(row: Row, rows: list[Row]) -> list[str]:
    name = f"first event, {row['transport']} x {row['streams']}"
    ours, bare = row["gateway"], row["bare"]
    lines = []
    for part, most in (("p50", FIRST_P50_MS), ("p99", FIRST_P99_MS)):
        key = f"added_{part}_ms"
        target = _target(f"{most} ms", is_met=ours[key] <= most)
        lines.append(
            _line(f"{name}, added {part}", f"{ours[key]:.2f} ms", f"{bare[key]:.2f} ms", "", target)
        )
    return lines


def _idle(row: Row, rows: list[Row]) -> list[str]:
    target = _target(f"{IDLE_MB} MB", is_met=row["rss_mb"] <= IDLE_MB)
    return [_line("idle", f"{row['rss_mb']:.1f} MB RSS", target=target)]


def _socket(row: Row, rows: list[Row]) -> list[str]:
    target = _target(f"{SOCKET_KB} KB", is_met=row["kb"] <= SOCKET_KB)
    return [_line("idle socket", f"{row['kb']:.1f} KB", target=target)]


def _turn(row: Row, rows: list[Row]) -> list[str]:
    name = f"turn, {row['how']}, {row['items']} items, {row['kb']:.0f} KB"
    target = ""
    if row["how"] == "resend" and row["kb"] >= 1000:
        target = _target(f"{RESEND_MS} ms", is_met=row["gateway"] <= RESEND_MS)
    elif row["how"] == "continued" and row["items"] > 50:
        least = next(r for r in rows if r["work"] == "turn" and r["how"] == "continued")
        most = CONTINUED_RATIO * least["gateway"] + row["bare"] - least["bare"]
        words = f"{most:.2f} ms ({CONTINUED_RATIO} x 2 items, and the bytes)"
        target = _target(words, is_met=row["gateway"] <= most)
    return [_line(name, f"{row['gateway']:.2f} ms", f"{row['bare']:.2f} ms", target=target)]


def _workers(row: Row, rows: list[Row]) -> list[str]:
    target = ""
    if row["count"] > 1:
        one = next(r for r in rows if r["work"] == "workers" and r["of"] == row["of"])
        ratio = row["events_per_second"] / one["events_per_second"]
        target = _target(f"{ratio:.2f} x one, {WORKERS_RATIO}", is_met=ratio >= WORKERS_RATIO)
    figure = f"{row['events_per_second']:,.0f}/s, {row['us_per_event']:.1f} us"
    return [_line(f"{row['of']}, {row['count']} workers, sse x 128", figure, target=target)]


def _peer(row: Row, rows: list[Row]) -> list[str]:
    name = f"{row['name']}, {row.get('of', '')} {row.get('transport', '')} x 32"
    if "error" in row:
        return [_line(name, "failed", target=row["error"])]
    peer, ours = row["peer"], row["gateway"]
    ratio = peer["us_per_event"] / ours["us_per_event"]
    figure = f"{peer['us_per_event']:.1f} us, {peer['events_per_second']:,.0f}/s"
    words = f"this gateway: {ours['us_per_event']:.1f} us, {ours['events_per_second']:,.0f}/s"
    if row["name"] == "LiteLLM":
        words += "; " + _target(f"{LITELLM_RATIO} x", is_met=ratio >= LITELLM_RATIO)
    return [_line(name, figure, "", f"{ratio:.1f}", f"{words}; RSS {peer['rss_mb']:.0f} MB")]


_SHOW: dict[str, Callable[[Row, list[Row]], list[str]]] = {
    "paced": _cost,
    "burst": _cost,
    "first event": _first,
    "idle": _idle,
    "idle socket": _socket,
    "turn": _turn,
    "workers": _workers,
    "peer": _peer,
}
