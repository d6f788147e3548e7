"""Output items in flight: canonical events of one item in, public events and the finished item out.

All kinds have the same four verbs: `open`, `delta`, `close`, `cut`. Events leave here without `sequence_number`.
"""

from collections.abc import Callable
from typing import Final, Protocol

from gateway.tools.gate import CallVerdict
from gateway.tools.row import CallStream, NewId
from gateway.turn.state import ItemState, ItemTrigger, next_item_state
from gateway.wire import events
from gateway.wire.json import JSON

Ended = tuple[list[JSON], JSON]


class OpenItem(Protocol):
    """An item between `output_item.added` and its end."""

    def open(self) -> list[JSON]:
        """Public events for the added item."""

    def delta(self, event: JSON) -> list[JSON]:
        """Public events for one canonical delta."""

    def close(self, item: JSON) -> Ended:
        """Public events for the done item, and the public item for the output."""

    def cut(self, item: JSON) -> Ended:
        """The same for an item that the answer's end left open."""


class Message:
    """An assistant message: at most one text part, then at most one refusal part."""

    def __init__(self, index: int, new_id: NewId) -> None:
        self._index = index
        self._id = new_id("msg")
        self._part: str | None = None
        self._content: list[JSON] = []
        self._text: list[str] = []

    def _item(self, status: str) -> JSON:
        return {
            "id": self._id,
            "type": "message",
            "status": status,
            "role": "assistant",
            "content": self._content,
        }

    def open(self) -> list[JSON]:
        return [events.item_added(self._index, self._item("in_progress"))]

    def delta(self, event: JSON) -> list[JSON]:
        text = event["delta"]
        is_refusal = event["type"] == "response.refusal.delta"
        part = "refusal" if is_refusal else "output_text"
        opened = [] if self._part == part else self._switch(part)
        self._text.append(text)
        public: JSON = {
            "type": event["type"],
            "item_id": self._id,
            "output_index": self._index,
            "content_index": len(self._content),
            "delta": text,
        }
        if not is_refusal:
            public["logprobs"] = event.get("logprobs") or []
        opened.append(public)
        return opened

    def _switch(self, part: str) -> list[JSON]:
        closed = self._close_part({})
        self._part = part
        zero = _PART[part]("", {})
        return [*closed, events.part_added(self._id, self._index, len(self._content), zero)]

    def _close_part(self, source: JSON) -> list[JSON]:
        if self._part is None:
            return []
        kind, index, text = self._part, len(self._content), "".join(self._text)
        part = _PART[kind](text, source)
        self._text = []
        self._content = [*self._content, part]
        public = [
            events.annotation_added(self._id, self._index, index, n, annotation)
            for n, annotation in enumerate(part.get("annotations", []))
        ]
        if kind == "output_text":
            end = events.done(
                kind, self._id, self._index, "text", text, content_index=index, logprobs=[]
            )
        else:
            end = events.done(kind, self._id, self._index, kind, text, content_index=index)
        public.append(end)
        public.append(events.part_done(self._id, self._index, index, part))
        return public

    def close(self, item: JSON) -> Ended:
        return self._end(item, "completed")

    def cut(self, item: JSON) -> Ended:
        return self._end(item, "incomplete")

    def _end(self, item: JSON, status: str) -> Ended:
        source: JSON = next(
            (p for p in item.get("content") or [] if p.get("type") == self._part), {}
        )
        public = self._close_part(source)
        done = self._item(status)
        return [*public, events.item_done(self._index, done)], done


def _text_part(text: str, source: JSON) -> JSON:
    return {
        "type": "output_text",
        "text": text,
        "annotations": source.get("annotations") or [],
        "logprobs": source.get("logprobs") or [],
    }


def _refusal_part(text: str, source: JSON) -> JSON:
    return {"type": "refusal", "refusal": text}


_PART: Final[dict[str, Callable[[str, JSON], JSON]]] = {
    "output_text": _text_part,
    "refusal": _refusal_part,
}


class Reasoning:
    """A reasoning item: summary parts, and the raw text as one content part."""

    def __init__(self, index: int, new_id: NewId) -> None:
        self._index = index
        self._id = new_id("rs")
        self._summary: list[str] = []
        self._summary_index: int | None = None
        self._raw: list[str] = []

    def open(self) -> list[JSON]:
        item: JSON = {"id": self._id, "type": "reasoning", "summary": []}
        return [events.item_added(self._index, item)]

    def delta(self, event: JSON) -> list[JSON]:
        if event["type"] == "response.reasoning_text.delta":
            return self._raw_delta(event["delta"])
        return self._summary_delta(event["delta"], event["summary_index"])

    def _raw_delta(self, text: str) -> list[JSON]:
        opened: list[JSON] = []
        if not self._raw:
            zero: JSON = {"type": "reasoning_text", "text": ""}
            opened.append(events.part_added(self._id, self._index, 0, zero))
        self._raw.append(text)
        delta = events.delta("reasoning_text", self._id, self._index, text, content_index=0)
        return [*opened, delta]

    def _summary_delta(self, text: str, summary_index: int) -> list[JSON]:
        opened: list[JSON] = []
        if summary_index != self._summary_index:
            opened = self._close_summary()
            self._summary.append("")
            self._summary_index = summary_index
            at = len(self._summary) - 1
            opened.append(events.summary_part("added", self._id, self._index, at, ""))
        at = len(self._summary) - 1
        self._summary[at] += text
        delta = events.delta(
            "reasoning_summary_text", self._id, self._index, text, summary_index=at
        )
        return [*opened, delta]

    def _close_summary(self) -> list[JSON]:
        if self._summary_index is None:
            return []
        self._summary_index = None
        at = len(self._summary) - 1
        text = self._summary[at]
        kind = "reasoning_summary_text"
        return [
            events.done(kind, self._id, self._index, "text", text, summary_index=at),
            events.summary_part("done", self._id, self._index, at, text),
        ]

    def close(self, item: JSON) -> Ended:
        public = self._close_summary()
        done: JSON = {
            "id": self._id,
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": text} for text in self._summary],
        }
        if self._raw:
            text = "".join(self._raw)
            part: JSON = {"type": "reasoning_text", "text": text}
            kind = "reasoning_text"
            public += [
                events.done(kind, self._id, self._index, "text", text, content_index=0),
                events.part_done(self._id, self._index, 0, part),
            ]
            done["content"] = [part]
        if item.get("encrypted_content"):
            # Never null: Open Responses forbids that (responses-api.md section 0.13).
            done["encrypted_content"] = item["encrypted_content"]
        return [*public, events.item_done(self._index, done)], done

    def cut(self, item: JSON) -> Ended:
        """Reasoning has no status that a client would act on: what there is of it is closed."""
        return self.close(item)


class Call:
    """A tool call of any kind: the kind's own stream does the lifting."""

    def __init__(self, stream: CallStream) -> None:
        self._stream = stream
        self._arguments: list[str] = []

    @property
    def verdict(self) -> CallVerdict | None:
        """What the tool's grammar says of the call."""
        return self._stream.verdict

    def open(self) -> list[JSON]:
        return self._stream.open()

    def delta(self, event: JSON) -> list[JSON]:
        fragment = event["delta"]
        self._arguments.append(fragment)
        return self._stream.delta(fragment)

    def close(self, item: JSON) -> Ended:
        return self._stream.close("".join(self._arguments))

    def cut(self, item: JSON) -> Ended:
        return self._stream.cut("".join(self._arguments))


class Foreign:
    """An item of a type that we do not know: it passes through with our index, under its own id if it has one."""

    def __init__(self, index: int, new_id: NewId, item: JSON) -> None:
        self._index = index
        self._item = item if item.get("id") else {**item, "id": new_id("item")}

    def open(self) -> list[JSON]:
        return [events.item_added(self._index, self._item)]

    def delta(self, event: JSON) -> list[JSON]:
        moved = {**event, "output_index": self._index}
        if "item_id" in event:
            moved["item_id"] = self._item["id"]
        return [moved]

    def close(self, item: JSON) -> Ended:
        done = {**item, "id": self._item["id"]}
        return [events.item_done(self._index, done)], done

    def cut(self, item: JSON) -> Ended:
        """Upstream's own end of the item is passed on, whatever status it has; our own end adds none."""
        return self.close(item) if "type" in item else ([], {**self._item, "status": "incomplete"})


class Compaction(Foreign):
    """Our own compaction item: a summary that was not finished is none, and nothing of it is kept."""

    def cut(self, item: JSON) -> Ended:
        return [], {}


class ItemSlot:
    """The item at one output_index together with its state."""

    def __init__(self, item: OpenItem) -> None:
        self.item = item
        self.state = next_item_state(ItemState.ABSENT, ItemTrigger.ADDED)

    def advance(self, trigger: ItemTrigger) -> None:
        self.state = next_item_state(self.state, trigger)
