"""What the log looks like: a line a record, for people or as JSON, without secrets, for journald too.

A line that belongs to a turn carries the ids of its connection, of the client's turn and of the
response, whoever wrote it: they travel in a context variable. SIGUSR1 shows debug lines, SIGUSR2
goes back to the configured level.
"""

import json
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import FrameType
from typing import Any, TextIO

from gateway.config import LogConfig
from gateway.server.redact import redact

# Ids of the turn that this task serves, as they stand in each of its lines.
TURN_IDS: ContextVar[Mapping[str, str]] = ContextVar("turn_ids", default={})  # noqa: B039  # never changed

# What sd-daemon(3) reads at the head of a line.
_PRIORITIES = {"DEBUG": 7, "INFO": 6, "WARNING": 4, "ERROR": 3, "CRITICAL": 2}
_is_plain = re.compile(r"[\w.:/@+\-]+").fullmatch
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


class HumanFormatter(logging.Formatter):
    """`time LEVEL logger message key=value …`; what a client wrote cannot begin a line of its own.

    Args:
        for_journal: no time and a priority: journald has its own clock.
        clean: takes secrets out.
    """

    def __init__(self, *, for_journal: bool, clean: Callable[[str], str] = redact) -> None:
        super().__init__()
        self._for_journal = for_journal
        self._clean = clean

    def format(self, record: logging.LogRecord) -> str:
        head = (
            f"<{_PRIORITIES.get(record.levelname, 6)}>"
            if self._for_journal
            else f"{_time(record)} {record.levelname} "
        )
        pairs = "".join(f" {key}={_word(value)}" for key, value in _fields(record).items())
        line = f"{record.name} {record.getMessage().translate(_CONTROL)}{pairs}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        text = self._clean(line)
        if self._for_journal:
            # Each line is an entry of its own there: all of them get the priority.
            text = text.replace("\n", "\n" + head)
        return head + text


class JSONFormatter(logging.Formatter):
    """One object a line.

    Args:
        clean: takes secrets out.
    """

    def __init__(self, *, clean: Callable[[str], str] = redact) -> None:
        super().__init__()
        self._clean = clean

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        texts = {
            key: self._clean(value) if isinstance(value, str) else value
            for key, value in entry.items()
        }
        return json.dumps(texts, default=str)


def set_up(
    config: LogConfig,
    clean: Callable[[str], str] = redact,
    environ: Mapping[str, str] = os.environ,
    stream: TextIO | None = None,
) -> None:
    """Log to stderr as the settings say; the two signals change the level from then on."""
    out = stream or sys.stderr
    handler = logging.StreamHandler(out)
    if config.format == "json":
        handler.setFormatter(JSONFormatter(clean=clean))
    else:
        handler.setFormatter(HumanFormatter(for_journal=is_journal(out, environ), clean=clean))
    level = config.level.upper()
    logging.basicConfig(level=level, handlers=[handler], force=True)
    root = logging.getLogger()

    def change(number: int, frame: FrameType | None) -> None:
        root.setLevel(logging.DEBUG if number == signal.SIGUSR1 else level)

    signal.signal(signal.SIGUSR1, change)
    signal.signal(signal.SIGUSR2, change)


def is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether that stream ends in journald: the variable alone may be inherited (systemd.exec(5))."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """The ids of the turn, then what the line itself has to say (`extra={"fields": …}`)."""
    own: Mapping[str, Any] = getattr(record, "fields", {})
    return {**TURN_IDS.get(), **own}


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _word(value: Any) -> str:
    text = str(value)
    return text if _is_plain(text) else json.dumps(text)
