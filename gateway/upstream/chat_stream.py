"""Reads what a Chat Completions server answers, streamed or whole, into canonical events.

Which habits a server has is in its profile and in tables; the order of events is the assembly's
care, and which call a fragment belongs to is decided in `slots`.
"""

from collections.abc import Callable
from typing import Any

from gateway.upstream.assembly import Cut
from gateway.upstream.content import Kind, read_parts
from gateway.upstream.errors import find_error
from gateway.upstream.profiles import Profile
from gateway.upstream.reader import AnswerReader
from gateway.upstream.slots import CallSlots
from gateway.upstream.think import ThinkSplitter
from gateway.upstream.usage import read_timings, read_usage
from gateway.wire.json import JSON

# Q13. What ends an answer by itself; whether it holds calls, the calls say (Q14).
_CLEAN = frozenset(
    (
        *("stop", "tool_calls", "function_call", "tool_use", "end_turn", "complete"),
        *("eos", "eos_token", "stop_sequence"),  # TGI
    )
)
_CUTS: dict[str, Cut] = {
    "length": "max_output_tokens",
    "max_tokens": "max_output_tokens",
    "max_output_tokens": "max_output_tokens",
    "model_length": "max_output_tokens",  # Mistral
    "content_filter": "content_filter",
    "safety": "content_filter",  # Gemini behind proxies
}
_FAILURES = {
    "error": "The upstream reported that generation failed.",
    "abort": "The upstream aborted the answer.",
    "cancelled": "The upstream cancelled the answer.",
}


class ChatReader(AnswerReader):
    """Bytes of one answer to /chat/completions -> canonical events."""

    def __init__(self, profile: Profile, content_type: str) -> None:
        super().__init__(content_type)
        self._slots = CallSlots(self._assembly)
        self._reasoning_fields = profile.reasoning_in
        self._think = ThinkSplitter() if profile.think_tags else None
        self._finish_reason: str | None = None
        self._tell: dict[Kind, Callable[[str], None]] = {
            "text": self._text,
            "refusal": self._assembly.refusal,
            "reasoning": self._assembly.reasoning,
            "summary": lambda text: self._assembly.reasoning(text, "summary"),
            "encrypted": lambda _: None,  # is of use to the service that made it only
            "unknown": lambda part: self._assembly.note(f"a content part {part!r} was skipped"),
        }

    # ------------------------------------------------------------------------------------- payloads
    def _read(self, name: str | None, payload: JSON) -> None:
        choices = payload.get("choices")
        if type(choices) is list and choices and not payload.get("error"):
            self._choice(choices[0])
        else:
            self._without_choices(payload)
        if payload.get("usage") or "timings" in payload or "x_groq" in payload:
            self._usage(payload)

    def _without_choices(self, chunk: JSON) -> None:
        """An error (Q4), or what comes beside the answer: usage, Azure's filter results (Q10)."""
        if find_error(chunk):
            self._fail_with(chunk)
        elif "choices" not in chunk and not chunk.get("usage"):
            self._skip(chunk)

    def _usage(self, chunk: JSON) -> None:
        groq = chunk.get("x_groq")
        usage = (
            read_usage(chunk.get("usage"))
            or (read_usage(groq.get("usage")) if isinstance(groq, dict) else None)
            or read_timings(chunk.get("timings"))
        )
        if usage is not None:
            self._assembly.usage(usage)

    # -------------------------------------------------------------------------------------- choices
    def _choice(self, choice: Any) -> None:
        """The first choice; we never ask for more than one."""
        if type(choice) is not dict:
            self._assembly.note(f"a choice of type {type(choice).__name__} was skipped")
            return
        delta, message = choice.get("delta"), choice.get("message")
        if type(delta) is dict:
            self._delta(delta)
        elif type(message) is dict and not self._is_answered:
            # (A stream that repeats everything in a last `message` has given it already.)
            self._delta(_with_indices(message))
        self._is_answered = True
        logprobs = choice.get("logprobs")
        if type(logprobs) is dict and isinstance(logprobs.get("content"), list):
            self._assembly.annotate([], logprobs["content"])
        reason = choice.get("finish_reason")
        if reason:  # Q15: after the delta that came with it
            self._finish_reason = str(reason).lower()
        given = choice.get("usage")  # Moonshot
        if given and (usage := read_usage(given)) is not None:
            self._assembly.usage(usage)

    def _delta(self, delta: JSON) -> None:
        for field in self._reasoning_fields:
            value = delta.get(field)
            if value and self._parts(value, "reasoning"):  # Q34: the first that says something
                break
        content = delta.get("content")
        if content:
            if type(content) is str and self._think is None:
                self._assembly.text(content)
            else:
                self._parts(content, "text")
        refusal = delta.get("refusal")
        if refusal:
            self._parts(refusal, "refusal")
        annotations = delta.get("annotations")
        if annotations and isinstance(annotations, list):
            self._assembly.annotate(list(map(_flat_annotation, annotations)), [])
        calls = delta.get("tool_calls") or delta.get("function_call")
        if calls:
            self._flush()
            for entry in calls if isinstance(calls, list) else [calls]:
                self._slots.add(entry)

    def _parts(self, value: Any, kind: Kind) -> bool:
        is_any = False
        for part_kind, text in read_parts(value, kind):
            self._tell[part_kind](text)
            is_any = is_any or part_kind not in ("encrypted", "unknown")
        return is_any

    def _text(self, text: str) -> None:
        if self._think is None:
            self._assembly.text(text)
            return
        for kind, part in self._think.feed(text):
            self._give(kind, part)

    def _give(self, kind: str, part: str) -> None:
        if kind == "text":
            self._assembly.text(part)
        else:
            self._assembly.reasoning(part)

    # -------------------------------------------------------------------------------------- the end
    def _on_done_marker(self) -> None:
        if self._is_answered:
            self._end()

    def _on_end_of_body(self) -> None:
        if self._finish_reason is not None or (self._framing.is_body and self._is_answered):
            self._end()

    def _flush(self) -> None:
        """Text that might have become a tag comes before what follows."""
        for kind, part in self._think.finish() if self._think is not None else []:
            self._give(kind, part)

    def _end(self) -> None:
        self._flush()
        reason = self._finish_reason or "stop"
        if reason in _FAILURES:
            self._assembly.fail(None, _FAILURES[reason])
            return
        if reason not in _CUTS and reason not in _CLEAN:
            self._assembly.note(f"unknown finish_reason {reason!r}")
        self._assembly.finish(_CUTS.get(reason))


def _with_indices(message: JSON) -> JSON:
    """A whole message; its calls are told apart by their places, whatever else they lack (Q18)."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    placed = [
        {**call, "index": place} if isinstance(call, dict) else call
        for place, call in enumerate(calls)
    ]
    return {**message, "tool_calls": placed}


def _flat_annotation(annotation: Any) -> Any:
    """Chat nests a citation under its type; Responses has its fields beside it."""
    if not isinstance(annotation, dict):
        return annotation
    kind = annotation.get("type")
    nested = annotation.get(kind) if isinstance(kind, str) else None
    return {"type": kind, **nested} if isinstance(nested, dict) else annotation
