"""The lines of a recording, read: what is none is told in words."""

from gateway.wire.json import JSON, MalformedJSON, loads

# Of the format; another one is not read.
VERSION = 1

# What a line of its kind must have.
_NEEDS = {
    "turn": ("request", "history", "options"),
    "target": ("profile",),
    "id": ("value",),
    "now": ("value",),
    "seal": ("text",),
    "unseal": ("text", "value"),
    "asked": ("path", "body"),
    "answered": ("status", "headers"),
    "fail": ("error",),
    "sent": ("events",),
    "end": ("state", "error", "gone", "response"),
}


class NotARecording(ValueError):
    """The file cannot be run. The message says why."""


def read_lines(data: bytes) -> list[JSON]:
    """The lines of a recording.

    Raises:
        NotARecording: it is none, or of a version that this gateway does not know.
    """
    lines: list[JSON] = []
    for number, text in enumerate(data.split(b"\n"), start=1):
        if not text:
            continue
        try:
            line = loads(text)
        except MalformedJSON as error:
            raise NotARecording(f"line {number} is no JSON: {error}") from None
        if not isinstance(line, dict) or not isinstance(line.get("kind"), str):
            raise NotARecording(f"line {number} is no line of a recording")
        missing = [key for key in _NEEDS.get(line["kind"], ()) if key not in line]
        if missing:
            raise NotARecording(f"line {number} has no {missing[0]!r}")
        lines.append(line)
    if not lines or lines[0]["kind"] != "recording":
        raise NotARecording("its first line is not that of a recording")
    if lines[0].get("version") != VERSION:
        raise NotARecording(
            f"it has version {lines[0].get('version')}; this gateway reads version {VERSION}"
        )
    if not any(line["kind"] == "turn" for line in lines):
        raise NotARecording("it holds no turn: the turn was refused, or was larger than max_bytes")
    return lines
