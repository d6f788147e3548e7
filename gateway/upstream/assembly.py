"""The one place where loose pieces of an answer become canonical events.

Theory of operation. A reader says what it found (`text`, `call`, `arguments`, …) in whatever order
the server sent it; the assembly guarantees the order that everything behind relies on: items one
after another (added, deltas, done), output_index from 0 without gaps, deltas that add up to done,
exactly one terminal event and nothing behind it.

At most one item is open. A message or reasoning item ends when something else begins. A function
call does not end by that alone, since parallel calls may be interleaved (Q26): when its arguments
are complete JSON it is closed at once, for clients run a call at its done event; otherwise whatever
begins waits in line, and is replayed when the open call completes. `finish` settles what is left: a
call whose JSON lacks its end was cut, whatever the server says (Q16, Q17).

Knows no server, no SSE and no field names of any upstream API.
"""

from typing import Literal

from gateway.upstream.json_prefix import is_cut_json
from gateway.upstream.pieces import Call, Foreign, Message, Piece, Reasoning
from gateway.wire.json import JSON

__all__ = ["ENDED_EARLY", "Assembly", "Cut", "is_cut_json"]

Cut = Literal["max_output_tokens", "content_filter"]

# EOF without a finish (Q5): never "completed".
ENDED_EARLY = "The upstream's stream ended early: it broke off before the answer was finished."

# A stream that is odd throughout is odd in the same way: the first notes tell it all.
MAX_NOTES = 20

_TEXT_DELTA = "response.output_text.delta"
_ARGUMENTS_DELTA = "response.function_call_arguments.delta"


class Assembly:
    """Collects one answer; `events()` hands out what has become certain since the last time.

    `notes` are short sentences about oddities of the server, for the log.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.is_done = False
        self._events: list[JSON] = []
        self._open: Piece | None = None
        self._waiting: list[Piece] = []
        self._next_index = 0
        self._calls: dict[int, Call] = {}
        self._foreign: dict[int, Foreign] = {}
        self._fields: JSON = {}  # for the next message or reasoning item
        self._usage: JSON | None = None

    def note(self, note: str) -> None:
        """Record an oddity of the server."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append(note)

    def events(self) -> list[JSON]:
        """Canonical events since the last call."""
        events, self._events = self._events, []
        return events

    # ------------------------------------------------------------------------------ text, reasoning
    def text(self, delta: str) -> None:
        """Visible text. `delta` is not empty."""
        piece = self._open
        if type(piece) is Message and not piece.is_sealed and not piece.refusals:
            piece.texts.append(delta)
            self._events.append({"type": _TEXT_DELTA, "output_index": piece.index, "delta": delta})
        elif not self.is_done:
            message = self._message()
            if message.refusals:  # text comes first in an item
                self.seal()
                message = self._message()
            message.texts.append(delta)
            self._tell(message, {"type": _TEXT_DELTA, "delta": delta})

    def refusal(self, delta: str) -> None:
        """Text of a refusal; the message takes no more ordinary text after it."""
        if self.is_done:
            return
        message = self._message()
        message.refusals.append(delta)
        self._tell(message, {"type": "response.refusal.delta", "delta": delta})

    def reasoning(
        self, delta: str, kind: Literal["text", "summary"] = "text", part: int = 0
    ) -> None:
        """Reasoning of the model, in full or as a summary's part. `delta` is not empty."""
        if self.is_done:
            return
        piece = self._reasoning()
        if kind == "text":
            piece.texts.append(delta)
            self._tell(piece, {"type": "response.reasoning_text.delta", "delta": delta})
        else:
            self._tell(piece, piece.add_summary(part, delta))

    def encrypted_reasoning(self, blob: str) -> None:
        """The sealed form of the reasoning that is being given, or of one that is not shown."""
        if not self.is_done:
            self._reasoning().encrypted = blob

    def annotate(self, annotations: list[JSON], logprobs: list[JSON]) -> None:
        """Side notes on the text of the message that is being given; they appear in its done."""
        message = self._last()
        if type(message) is Message:
            message.annotations += annotations
            message.logprobs += logprobs

    def annotate_whole(self, annotations: list[JSON], logprobs: list[JSON]) -> None:
        """The final side notes of the message that is being given; they replace earlier ones."""
        message = self._last()
        if type(message) is Message:
            message.annotations = annotations or message.annotations
            message.logprobs = logprobs or message.logprobs

    def seal(self, fields: JSON | None = None) -> None:
        """What is being given is a whole item: more text begins a new one, which keeps `fields`."""
        self._fields = fields or {}
        piece = self._last()
        if piece is not None:
            piece.is_sealed = True

    # ---------------------------------------------------------------------------------------- calls
    def call(
        self, slot: int, call_id: str = "", name: str = "", fields: JSON | None = None
    ) -> None:
        """A call, by the reader's own number for it; id and name may come later or again."""
        call = self._calls.get(slot)
        if call is not None:
            call.identify(call_id, name)
            if call is self._open and call.parts:
                self._announce(call)
                self._advance()
        elif not self.is_done:
            self._calls[slot] = call = Call(call_id, name, fields or {})
            self._begin(call)

    def arguments(self, slot: int, fragment: str) -> None:
        """Argument text of a call that `call` has named. `fragment` is not empty."""
        call = self._calls.get(slot)
        if call is None:
            return  # the answer was over before the call began
        if len(fragment) >= call.length or call.held or call.is_done:
            fragment = self._new_arguments(call, fragment)
            if not fragment:
                return
        call.parts.append(fragment)
        call.length += len(fragment)
        if call is not self._open:
            return
        if call.is_announced:
            event = {"type": _ARGUMENTS_DELTA, "output_index": call.index, "delta": fragment}
            self._events.append(event)
        else:
            self._announce(call)
        if self._waiting:
            self._advance()

    def complete(self, slot: int) -> None:
        """The upstream says that nothing more comes for this call; its text has to agree (Q17)."""
        call = self._calls.get(slot)
        if call is None or call.is_done:
            return
        call.is_declared_done = True
        self._advance()

    def peek(self, slot: int) -> Call | None:
        """The call of a slot, to be read only."""
        return self._calls.get(slot)

    def _new_arguments(self, call: Call, fragment: str) -> str:
        if not call.is_done:
            return call.new_text(fragment)
        if fragment.strip() and not call.text.endswith(fragment.strip()):
            late = f"{len(fragment)} characters of arguments came after call {call.name!r}"
            self.note(f"{late} was finished")
        return ""

    def _announce(self, call: Call) -> None:
        """Give the open call's `added` and what has come so far, once its name is known (Q21)."""
        if call.name and not call.is_announced:
            self._give_added(call)

    def _release(self, call: Call) -> None:
        text = call.release()
        if text:
            call.add(text)
            self._tell(call, {"type": _ARGUMENTS_DELTA, "delta": text})

    # -------------------------------------------------------------------------------- foreign items
    def foreign(self, slot: int, item: JSON) -> None:
        """An item of an unknown type begins."""
        if not self.is_done and slot not in self._foreign:
            self._foreign[slot] = piece = Foreign(item)
            self._begin(piece)

    def foreign_event(self, event: JSON, slot: int | None = None) -> None:
        """An event of an unknown type: of that item while it is not done, else of none."""
        if self.is_done:
            return
        event = {key: value for key, value in event.items() if key != "output_index"}
        piece = None if slot is None else self._foreign.get(slot)
        if piece is None or piece.final is not None:
            self._events.append(event)
        elif piece is self._open:
            self._tell(piece, event)
        else:
            piece.events.append(event)

    def foreign_done(self, slot: int, item: JSON) -> None:
        """The foreign item's final form."""
        self.foreign(slot, item)
        piece = self._foreign.get(slot)
        if piece is not None and piece.final is None:
            piece.final = item
            self._advance()

    # -------------------------------------------------------------------------------------- the end
    def usage(self, usage: JSON) -> None:
        """The complete usage; the last one counts (Q11)."""
        self._usage = usage

    def finish(self, cut: Cut | None = None) -> None:
        """The upstream's own end of the answer; `cut` says that it was made to stop."""
        if self.is_done:
            return
        while self._open is not None:
            piece, is_last = self._open, not self._waiting
            if type(piece) is Call:
                self._release(piece)
                cut = self._settle_call(piece, is_last, cut)
            else:
                self._close("incomplete" if cut and is_last else "completed")
            if self._waiting:
                self._start(self._waiting.pop(0))
        if cut:
            self._end("response.incomplete", {"incomplete_details": {"reason": cut}})
        else:
            self._end("response.completed", {})

    def fail(self, code: str | None, message: str) -> None:
        """The answer broke off; what was open stays incomplete."""
        if self.is_done:
            return
        self._drop_waiting()
        if type(self._open) is Call:
            self._release(self._open)
        if self._open is not None:
            self._close("incomplete")
        error = {"code": code or "server_error", "message": message}
        self._end("response.failed", {"error": error})

    def _settle_call(self, call: Call, is_last: bool, cut: Cut | None) -> Cut | None:
        """Close the open call at the end of the answer, and say whether the answer was cut."""
        verdict = call.verdict()
        if verdict == "complete":
            self._close("completed")
        elif cut:
            # The first unfinished one ends the answer: an incomplete item is the last one.
            self._drop_waiting()
            self._close("incomplete")
        elif verdict == "cut" and is_last:  # Q16, Q17: stopped inside its JSON
            self._close("incomplete")
            return "max_output_tokens"
        else:  # empty, or wrong in a way that no more tokens would have mended: passed as it is
            self._close("completed")
        return cut

    def _drop_waiting(self) -> None:
        if self._waiting:
            self.note(f"{len(self._waiting)} items behind an unfinished call were dropped")
            self._waiting.clear()

    def _end(self, kind: str, response: JSON) -> None:
        self.is_done = True
        self._events.append({"type": kind, "response": {**response, "usage": self._usage}})

    # ---------------------------------------------------------------------------------- the machine
    def _last(self) -> Piece | None:
        """The piece that was begun last and has not been closed."""
        return self._waiting[-1] if self._waiting else self._open

    def _message(self) -> Message:
        """The message that takes more; text behind a call begins a new one (Q27)."""
        piece = self._last()
        if type(piece) is not Message or piece.is_sealed:
            piece = Message(self._take_fields())
            self._begin(piece)
        return piece

    def _reasoning(self) -> Reasoning:
        piece = self._last()
        if type(piece) is not Reasoning or piece.is_sealed:
            piece = Reasoning(self._take_fields())
            self._begin(piece)
        return piece

    def _take_fields(self) -> JSON:
        fields, self._fields = self._fields, {}
        return fields

    def _begin(self, piece: Piece) -> None:
        self._waiting.append(piece)
        self._advance()

    def _advance(self) -> None:
        """Let what waits take its turn, and what is over end, as far as the open item allows."""
        while True:
            piece = self._open
            if piece is not None:
                if not self._waiting and not piece.is_over():
                    return
                if type(piece) is Call:
                    self._release(piece)
                if piece.blocks():
                    return
                self._close("completed")
            if not self._waiting:
                return
            self._start(self._waiting.pop(0))

    def _start(self, piece: Piece) -> None:
        piece.index = self._next_index
        self._next_index += 1
        self._open = piece
        if type(piece) is not Call:
            self._give_added(piece)
        elif piece.parts:
            self._announce(piece)

    def _give_added(self, piece: Piece) -> None:
        added = {"type": "response.output_item.added", "output_index": piece.index}
        self._events.append({**added, "item": piece.opening()})
        if type(piece) is Call:
            piece.is_announced = True
        for event in piece.gathered():
            self._tell(piece, event)

    def _tell(self, piece: Piece, event: JSON) -> None:
        """Give an event of the open item; what waits is replayed at its turn instead."""
        if piece is self._open and (type(piece) is not Call or piece.is_announced):
            self._events.append({"type": event["type"], "output_index": piece.index, **event})

    def _close(self, status: str) -> None:
        piece = self._open
        assert piece is not None
        if type(piece) is Call:
            if status == "completed" and not piece.text.strip():
                self._fill_empty(piece)
            if not piece.is_announced:
                if not piece.name:
                    self.note("a call came without a name")
                self._give_added(piece)
            piece.is_done = True
        done = {"type": "response.output_item.done", "output_index": piece.index}
        self._events.append({**done, "item": piece.closing(status)})
        self._open = None

    def _fill_empty(self, call: Call) -> None:
        """No arguments at all means `{}` to every client (Q24)."""
        call.add("{}")
        self._tell(call, {"type": _ARGUMENTS_DELTA, "delta": "{}"})
