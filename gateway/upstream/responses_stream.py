"""Reads what a Responses server answers, streamed or whole, into canonical events.

The server's own numbering, skeleton and verdicts are not trusted (Q17, Q37 to Q43): events are read
for the text that they bring, `done` and `completed` only fill what the deltas left out, and the
assembly makes the skeleton anew. Types that are not known pass through.
"""

from collections.abc import Callable
from typing import Any

from gateway.upstream.assembly import Cut
from gateway.upstream.errors import read_fault
from gateway.upstream.known_items import (
    OWN_TYPES,
    KnownItem,
    KnownItems,
    read_arguments,
    read_call_id,
    read_name,
)
from gateway.upstream.profiles import Profile
from gateway.upstream.reader import AnswerReader
from gateway.upstream.usage import read_usage
from gateway.wire.json import JSON

# Lifecycle events and part frames: they say nothing that deltas and items do not say.
_SKELETON = frozenset(
    (
        *("response.created", "response.queued", "response.in_progress", "response.metadata"),
        *("response.content_part.added", "response.reasoning_summary_part.added"),
        *("response.content_part.done", "response.reasoning_summary_part.done"),
        *("keepalive", "ping"),
    )
)
# type of a delta or a part's done -> (type of its item, channel, the field that holds the text)
_DELTAS: dict[str, tuple[str, str, str]] = {
    "response.output_text.delta": ("message", "text", "content_index"),
    "response.refusal.delta": ("message", "refusal", "content_index"),
    "response.function_call_arguments.delta": ("function_call", "arguments", ""),
    "response.reasoning_text.delta": ("reasoning", "reasoning", "content_index"),
    "response.reasoning.delta": ("reasoning", "reasoning", "content_index"),  # Open Responses
    "response.reasoning_summary_text.delta": ("reasoning", "summary", "summary_index"),
    "response.reasoning_summary.delta": ("reasoning", "summary", "summary_index"),
}
_DONES: dict[str, tuple[str, str, str]] = {
    kind.removesuffix("delta") + "done": row for kind, row in _DELTAS.items()
}
# Status in the final response, or else the event's type -> what happened (Q41).
_OUTCOMES = {
    "completed": "completed",
    "incomplete": "incomplete",
    "failed": "failed",
    "cancelled": "cancelled",
    "canceled": "cancelled",
}
_ENDS = {
    "response.completed": "completed",
    "response.done": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
}
_REASONS: dict[Any, Cut] = {
    "content_filter": "content_filter",
    "max_output_tokens": "max_output_tokens",
    "max_tokens": "max_output_tokens",  # ds4
    "length": "max_output_tokens",
}
# Fields of a message or call that clients read and that we do not make ourselves (SGLang, vLLM).
_KEPT_FIELDS = ("phase", "namespace")


class ResponsesReader(AnswerReader):
    """Bytes of one answer to /responses -> canonical events."""

    def __init__(self, profile: Profile, content_type: str) -> None:
        super().__init__(content_type)
        self._items = KnownItems()
        self._current: KnownItem | None = None  # whose text went on last
        self._handlers: dict[str, Callable[[JSON], None]] = {
            **dict.fromkeys(_DELTAS, self._on_delta),
            **dict.fromkeys(_DONES, self._on_text_done),
            **dict.fromkeys(_ENDS, self._on_end),
            **dict.fromkeys(_SKELETON, lambda event: None),
            "response.output_item.added": self._on_added,
            "response.output_item.done": self._on_done,
            "response.output_text.annotation.added": self._on_annotation,
            "error": self._fail_with,
            "response.error": self._fail_with,
        }
        self._put: dict[str, Callable[[KnownItem, str, int], None]] = {
            "text": lambda known, text, part: self._assembly.text(text),
            "refusal": lambda known, text, part: self._assembly.refusal(text),
            "reasoning": lambda known, text, part: self._assembly.reasoning(text),
            "summary": lambda known, text, part: self._assembly.reasoning(text, "summary", part),
            "arguments": lambda known, text, part: self._assembly.arguments(known.slot, text),
        }

    # ------------------------------------------------------------------------------------- payloads
    def _read(self, name: str | None, payload: JSON) -> None:
        kind = payload.get("type") or name  # Q3: the `event:` line is only a fallback
        handler = self._handlers.get(kind) if isinstance(kind, str) else None
        if handler is not None:
            self._is_answered = True
            handler(payload if "type" in payload else {**payload, "type": kind})
        elif payload.get("error") or payload.get("object") == "error":
            self._fail_with(payload)  # Q4: no type at all
        elif isinstance(payload.get("output"), list):
            self._is_answered = True
            self._on_whole_response(payload)
        elif isinstance(kind, str):
            self._is_answered = True
            self._on_unknown({**payload, "type": kind})
        else:
            self._skip(payload)

    def _on_whole_response(self, response: JSON) -> None:
        """A blocking answer, asked for or not (Q9)."""
        if response.get("status") in ("queued", "in_progress"):
            self._assembly.fail(None, "The upstream answered before the response was finished.")
        self._on_end({"type": "response.completed", "response": response})

    def _on_unknown(self, event: JSON) -> None:
        event = {key: value for key, value in event.items() if key != "sequence_number"}
        known = self._items.of_foreign_event(event)
        self._assembly.foreign_event(event, None if known is None else known.slot)

    # ----------------------------------------------------------------------------------------- text
    def _on_delta(self, event: JSON) -> None:
        delta = event.get("delta")
        if not delta or type(delta) is not str:
            return
        item_type, channel, part_field = _DELTAS[event["type"]]
        known = self._items.of_event(event, item_type)
        if known.type != item_type:  # LiteLLM: argument deltas of a custom_tool_call
            self._on_unknown(event)
            return
        part = event.get(part_field)
        self._give(known, channel, part if type(part) is int else 0, delta)
        logprobs = event.get("logprobs")
        if logprobs and channel == "text" and isinstance(logprobs, list):
            self._assembly.annotate([], logprobs)

    def _on_text_done(self, event: JSON) -> None:
        item_type, channel, part_field = _DONES[event["type"]]
        known = self._items.of_event(event, item_type)
        if known.type != item_type:
            self._on_unknown(event)
            return
        if channel == "arguments":
            whole = read_arguments(event)
            self._assembly.call(known.slot, known.call_id, known.name or read_name(event))
        else:
            value = event.get("refusal" if channel == "refusal" else "text")
            whole = value if isinstance(value, str) else ""
        part = event.get(part_field)
        part = part if type(part) is int else 0
        given = "".join(known.given.get((channel, part), ()))
        self._fill(known, channel, part, given, whole)

    def _on_annotation(self, event: JSON) -> None:
        annotation = event.get("annotation")
        if isinstance(annotation, dict):
            self._assembly.annotate([annotation], [])

    def _give(self, known: KnownItem, channel: str, part: int, text: str) -> None:
        """Hand on text of an item; text of another item than before begins a new one."""
        if known.type == "function_call":
            if not known.given:
                self._assembly.call(known.slot, known.call_id, known.name)
        elif self._current is not known:
            self._current = known
            self._assembly.seal(known.fields)
        known.given.setdefault((channel, part), []).append(text)
        self._put[channel](known, text, part)

    def _fill(self, known: KnownItem, channel: str, part: int, given: str, whole: str) -> None:
        """Give what the deltas left out (Q39); deltas that went out cannot be taken back (Q40)."""
        if whole.startswith(given):
            if len(whole) > len(given):
                self._give(known, channel, part, whole[len(given) :])
        elif whole:
            self._assembly.note(f"the {channel} of a {known.type} differs from its deltas")

    # ---------------------------------------------------------------------------------------- items
    def _on_added(self, event: JSON) -> None:
        item = event.get("item")
        if not isinstance(item, dict):
            return
        known = self._items.begin(item, event.get("output_index"))
        known.fields = _kept(item)
        if known.type == "function_call":
            self._assembly.call(known.slot, known.call_id, known.name, known.fields)
        elif known.type not in OWN_TYPES:
            self._assembly.foreign(known.slot, item)

    def _on_done(self, event: JSON) -> None:
        item = event.get("item")
        if not isinstance(item, dict):
            return
        index = event.get("output_index")
        known = self._items.of_whole(item, index) or self._items.begin(item, index)
        self._whole(known, item)

    def _whole(self, known: KnownItem, item: JSON) -> None:
        """A finished item: give what is missing of it and end it."""
        known.fields = {**known.fields, **_kept(item)}
        if known.type == "message":
            self._whole_message(known, item)
        elif known.type == "reasoning":
            self._whole_reasoning(known, item)
        elif known.type == "function_call":
            self._assembly.call(known.slot, read_call_id(item), read_name(item), known.fields)
            given = known.text("arguments")
            self._fill(known, "arguments", 0, given, read_arguments(item))
            self._assembly.complete(known.slot)
        else:
            self._assembly.foreign_done(known.slot, item)
        known.is_done = True

    def _whole_message(self, known: KnownItem, item: JSON) -> None:
        texts, refusals = [], []
        annotations: list[JSON] = []
        logprobs: list[JSON] = []
        content = item.get("content")
        for part in content if isinstance(content, list) else [{"text": content}]:
            if not isinstance(part, dict):
                continue
            texts.append(_text(part.get("text")))
            refusals.append(_text(part.get("refusal")))
            annotations += _list(part.get("annotations"))
            logprobs += _list(part.get("logprobs"))
        self._fill(known, "text", 0, known.text("text"), "".join(texts))
        self._fill(known, "refusal", 0, known.text("refusal"), "".join(refusals))
        if self._current is known and not known.is_done:
            self._assembly.annotate_whole(annotations, logprobs)

    def _whole_reasoning(self, known: KnownItem, item: JSON) -> None:
        summary = [_text(part.get("text")) for part in _list(item.get("summary"))]
        texts = [_text(part.get("text")) for part in _list(item.get("content"))]
        if not known.text("summary"):
            for number, text in enumerate(summary):
                self._fill(known, "summary", number, "", text)
        self._fill(known, "reasoning", 0, known.text("reasoning"), "".join(texts))
        sealed = item.get("encrypted_content")
        if isinstance(sealed, str) and sealed and not known.is_done:
            if self._current is not known:
                self._current = known
                self._assembly.seal(known.fields)
            self._assembly.encrypted_reasoning(sealed)

    # -------------------------------------------------------------------------------------- the end
    def _on_end(self, event: JSON) -> None:
        response = event.get("response")
        if not isinstance(response, dict):
            response = {}
        usage = read_usage(response.get("usage"))
        if usage is not None:
            self._assembly.usage(usage)
        outcome = _OUTCOMES.get(str(response.get("status"))) or _ENDS[event["type"]]
        error = response.get("error") or event.get("error")
        if outcome == "failed" or error:
            fault = read_fault(error)
            self._assembly.fail(fault.code, fault.message)
        elif outcome == "cancelled":
            self._assembly.fail(None, "The upstream cancelled the answer.")
        else:
            self._fill_gaps(_list(response.get("output")))
            self._assembly.finish(self._cut(response) if outcome == "incomplete" else None)

    def _cut(self, response: JSON) -> Cut:
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        if not isinstance(reason, str) or reason not in _REASONS:
            self._assembly.note(f"unknown reason of an incomplete answer: {reason!r}")
            return "max_output_tokens"
        return _REASONS[reason]

    def _fill_gaps(self, output: list[JSON]) -> None:
        """Items that the stream left out, or left open, from the final list (Q38, Q39)."""
        for item, known in zip(output, self._items.of_list(output), strict=True):
            if known is None:
                known = self._items.begin(item, None)
            if not known.is_done:
                self._whole(known, item)

    def _on_done_marker(self) -> None:
        """LiteLLM sends it behind the terminal event; it is none itself (Q5)."""

    def _on_end_of_body(self) -> None:
        """Only a terminal event ends an answer well."""


def _kept(item: JSON) -> JSON:
    return {field: item[field] for field in _KEPT_FIELDS if isinstance(item.get(field), str)}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _list(value: Any) -> list[JSON]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
