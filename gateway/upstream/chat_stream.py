"""Reads what a Chat Completions server answers, streamed or whole, into canonical events.

Which habits a server has is in its profile and in tables; the order of events is the assembly's
care, and which call a fragment belongs to is decided in `slots`.
"""

from collections.abc import Callable
from typing import Any

from gateway.upstream.assembly import ENDED_EARLY, Assembly, Cut
from gateway.upstream.content import Kind, read_parts
from gateway.upstream.errors import find_error, read_fault, read_text
from gateway.upstream.framing import Framing, decode
from gateway.upstream.profiles import Profile
from gateway.upstream.slots import CallSlots
from gateway.upstream.think import ThinkSplitter
from gateway.upstream.usage import read_timings, read_usage
from gateway.wire.json import JSON, MalformedJSON
from gateway.wire.sse import SSETooLarge

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


class ChatReader:
    """Bytes of one answer to /chat/completions -> canonical events.

    `notes` are oddities of the server, for the log.
    """

    def __init__(self, profile: Profile, content_type: str) -> None:
        self._framing = Framing(content_type)
        self._assembly = Assembly()
        self._slots = CallSlots(self._assembly)
        self._reasoning_fields = profile.reasoning_in
        self._think = ThinkSplitter() if profile.think_tags else None
        self._finish_reason: str | None = None
        self._is_answered = False  # at least one choice came
        self._tell: dict[Kind, Callable[[str], None]] = {
            "text": self._text,
            "refusal": self._assembly.refusal,
            "reasoning": self._assembly.reasoning,
            "summary": lambda text: self._assembly.reasoning(text, "summary"),
            "encrypted": lambda _: None,  # is of use to the service that made it only
            "unknown": lambda part: self._assembly.note(f"a content part {part!r} was skipped"),
        }

    @property
    def notes(self) -> list[str]:
        return self._assembly.notes

    def feed(self, chunk: bytes) -> list[JSON]:
        """Events that `chunk` completes."""
        try:
            for event in self._framing.feed(chunk):
                self._payload(event.data)
        except SSETooLarge as error:
            self._assembly.fail(None, f"The upstream's stream cannot be read: {error}.")
        return self._assembly.events()

    def finish(self) -> list[JSON]:
        """Events at the end of the body."""
        for event in self._framing.finish():
            self._payload(event.data)
        if self._finish_reason is not None or (self._framing.is_body and self._is_answered):
            self._end()
        elif not self._is_answered and self.notes:
            self._assembly.fail(None, f"The upstream's answer cannot be read: {self.notes[0]}.")
        else:  # Q5
            self._assembly.fail(None, ENDED_EARLY)
        return self._assembly.events()

    # ------------------------------------------------------------------------------------- payloads
    def _payload(self, data: str) -> None:
        """One `data:` of the stream, or the whole body."""
        if data == "[DONE]":
            self._done()
            return
        try:
            chunk = decode(data)
        except MalformedJSON as error:
            self._unreadable(data, str(error))
            return
        if type(chunk) is not dict:
            self._assembly.note(f"JSON that is no object ({type(chunk).__name__})")
            return
        choices = chunk.get("choices")
        if not choices or chunk.get("error"):  # Q4: an error object, or Q10: usage, Azure's filter
            self._without_choices(chunk)
        else:
            self._choice(choices[0])
        usage = chunk.get("usage")
        if usage or "timings" in chunk or "x_groq" in chunk:
            self._usage(chunk)

    def _unreadable(self, data: str, error: str) -> None:
        if self._framing.is_body:
            fault = read_text(data)
            self._assembly.fail(fault.code, fault.message)
        else:  # the stream goes on if it can
            self._assembly.note(f"{len(data)} characters that are no JSON ({error})")

    def _done(self) -> None:
        if self._is_answered:
            self._end()
        else:
            self._assembly.fail(None, "The upstream's stream ended early: it holds no answer.")

    def _without_choices(self, chunk: JSON) -> None:
        error = find_error(chunk)
        if error:
            fault = read_fault(error)
            self._assembly.fail(fault.code, fault.message)
        elif "choices" not in chunk and not chunk.get("usage"):
            self._assembly.note(f"an object with the keys {', '.join(map(repr, chunk))}")

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
        usage = read_usage(choice.get("usage"))  # Moonshot
        if usage is not None:
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
