"""The first place at which two JSON values differ, and what is shown of them there."""

import re
from typing import Any

from gateway.server.masking import MIN_SECRET_CHARS
from gateway.wire.json import dumps

# What is shown of a value that differs.
MAX_SHOWN_CHARS = 300

_masked_part = re.compile(rf"\*{{{MIN_SECRET_CHARS},}}")


def first_difference(recorded: Any, now: Any, path: str = "") -> tuple[str, str, str] | None:
    """(path, recorded, now) of the first place at which two JSON values differ; None when none does."""
    if isinstance(recorded, dict) and isinstance(now, dict):
        for key in [*recorded, *(key for key in now if key not in recorded)]:
            at = f"{path}.{key}" if path else key
            if key not in now or key not in recorded:
                there = [
                    short(side[key]) if key in side else "(absent)" for side in (recorded, now)
                ]
                return at, there[0], there[1]
            if found := first_difference(recorded[key], now[key], at):
                return found
        return None
    if isinstance(recorded, list) and isinstance(now, list):
        for index, (then, today) in enumerate(zip(recorded, now, strict=False)):
            if found := first_difference(then, today, f"{path}[{index}]"):
                return found
        if len(recorded) == len(now):
            return None
        at = min(len(recorded), len(now))
        sides = [short(side[at]) if at < len(side) else "(absent)" for side in (recorded, now)]
        return f"{path}[{at}]", sides[0], sides[1]
    if type(recorded) is type(now) and (recorded == now or _is_masked(recorded, now)):
        return None
    return path, short(recorded), short(now)


def _is_masked(recorded: Any, now: Any) -> bool:
    """Whether a text differs only in what was masked: a secret that this gateway was not shown."""
    if not isinstance(recorded, str) or len(recorded) != len(now):
        return False
    end = 0
    for stars in _masked_part.finditer(recorded):
        if recorded[end : stars.start()] != now[end : stars.start()]:
            return False
        end = stars.end()
    return end > 0 and recorded[end:] == now[end:]


def short(value: Any) -> str:
    text = dumps(value).decode()
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}…"
