"""What a chat `content` or a reasoning field may hold: text, null, a part, a list of parts (Q35).

Flattens every shape to (kind, text) pairs. Knows no stream.
"""

from collections.abc import Iterator
from typing import Any, Literal

Kind = Literal["text", "refusal", "reasoning", "summary", "encrypted", "unknown"]

# type of a part -> what it is, and the fields that may hold its text
_PARTS: dict[str, tuple[Kind, tuple[str, ...]]] = {
    "text": ("text", ("text",)),
    "output_text": ("text", ("text",)),
    "refusal": ("refusal", ("refusal",)),
    "thinking": ("reasoning", ("thinking",)),  # Mistral: a list of text parts
    "reasoning": ("reasoning", ("text", "reasoning")),
    "reasoning_text": ("reasoning", ("text",)),
    "summary_text": ("summary", ("text",)),
    "reasoning.text": ("reasoning", ("text",)),  # OpenRouter's reasoning_details[]
    "reasoning.summary": ("summary", ("summary",)),
    "reasoning.encrypted": ("encrypted", ("data",)),
}


def read_parts(value: Any, kind: Kind) -> Iterator[tuple[Kind, str]]:
    """The texts of a value; `kind` is what text without a type is. Empty parts are left out."""
    if isinstance(value, str):
        if value:
            yield kind, value
    elif isinstance(value, list):
        for part in value:
            yield from read_parts(part, kind)
    elif isinstance(value, dict):
        yield from _read_part(value, kind)


def _read_part(part: dict[str, Any], kind: Kind) -> Iterator[tuple[Kind, str]]:
    part_type = part.get("type", "text" if "text" in part else "")
    row = _PARTS.get(part_type) if isinstance(part_type, str) else None
    if row is None:
        yield "unknown", str(part_type)
        return
    part_kind, fields = row
    if part_kind == "text":
        part_kind = kind  # text inside a reasoning field is reasoning
    for field in fields:
        texts = list(read_parts(part.get(field), part_kind))
        if texts:
            yield from texts
            return
