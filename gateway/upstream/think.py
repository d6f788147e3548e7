"""`<think>…</think>` at the very start of the text is reasoning: the tags come off as it streams.

Only there and only once: a model that writes about the tag later means the tag. Knows no wire.
"""

from typing import Literal

OPENING, CLOSING = "<think>", "</think>"

Kind = Literal["text", "reasoning"]
Parts = list[tuple[Kind, str]]


class ThinkSplitter:
    """Feed it the text in any pieces; it says what of it is reasoning and what is text."""

    def __init__(self) -> None:
        self._place: Literal["before", "inside", "gap", "behind"] = "before"
        self._held = ""  # may still become a tag

    def feed(self, text: str) -> Parts:
        """What `text` makes certain, in order; no empty pieces."""
        if self._place == "behind":  # the usual case
            return [("text", text)]
        text = self._held + text
        self._held = ""
        if self._place == "before":
            parts = self._before(text)
        elif self._place == "inside":
            parts = self._inside(text)
        else:
            parts = self._gap(text)
        return [part for part in parts if part[1]]

    def finish(self) -> Parts:
        """What was held when the text ended."""
        held, self._held = self._held, ""
        if not held:
            return []
        return [("reasoning" if self._place == "inside" else "text", held)]

    def _before(self, text: str) -> Parts:
        start = text.lstrip()
        if OPENING.startswith(start):  # also when nothing but space has come
            self._held = text
            return []
        if start.startswith(OPENING):
            self._place = "inside"
            return self._inside(start[len(OPENING) :])
        self._place = "behind"
        return [("text", text)]

    def _inside(self, text: str) -> Parts:
        reasoning, tag, rest = text.partition(CLOSING)
        if tag:
            self._place = "gap"
            return [("reasoning", reasoning), *self._gap(rest)]
        end = len(text) - _overlap(text, CLOSING)
        self._held = text[end:]
        return [("reasoning", text[:end])]

    def _gap(self, text: str) -> Parts:
        """Blank lines between the tag and the answer belong to neither."""
        text = text.lstrip()
        if text:
            self._place = "behind"
        return [("text", text)]


def _overlap(text: str, tag: str) -> int:
    """Length of the longest end of `text` that begins `tag`."""
    return next(n for n in range(len(tag) - 1, -1, -1) if text.endswith(tag[:n]))
