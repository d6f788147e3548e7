"""Calls and their outputs: every call gets exactly one output, directly behind the calls of its model turn.

Function-only servers demand that (Q46), while a Responses history is looser: one custom call may have several outputs
(codex-cli 0.171, code mode), an interrupt leaves calls unanswered, messages may stand in between.

| case | what becomes of it |
| --- | --- |
| output without a call | 400 with the API's own text; a tool_search_output is left out instead, never an error |
| unanswered call of the response that is being continued | 400 with the API's own text |
| any other unanswered call | a synthetic output, so that an interrupted thread can go on |
| several outputs | merged into one; one that comes after the model has spoken again becomes a message in its place |
| one call_id for several calls | the first that waits gets the output; later ones get a numbered id upstream |
| tool_search_call without a call_id | left out: it cannot be answered (hosted ones have none) |
"""

from collections import deque
from typing import Final

from msgspec import Struct

from gateway.errors import RequestError
from gateway.wire.json import JSON

OUTPUT_OF: Final = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_CALL_OF: Final = {output: call for call, output in OUTPUT_OF.items()}
_WORDS: Final = {"function_call": "function call", "custom_tool_call": "custom tool call"}
# What Codex itself says of a call that it did not run.
ABORTED: Final = "aborted"


class PairedCall(Struct):
    """A call in the history.

    Attributes:
        item: the public call item.
        upstream_id: the call_id for upstream: the public one, numbered when it stands for several calls.
        outputs: its output items in order.
        is_closed: the model has spoken again since.
    """

    item: JSON
    upstream_id: str
    outputs: list[JSON]
    is_closed: bool = False


class Paired(Struct, frozen=True):
    """The history in the order that upstream needs.

    Attributes:
        steps: items as they are, `PairedCall`s in the place of calls, and behind each run of calls the same calls
            again under `answers`.
        notes: what was left out, for the log.
    """

    steps: list["Step"]
    notes: list[str]


class Answer(Struct, frozen=True):
    """The place where the output of a call goes."""

    call: PairedCall


class LateOutput(Struct, frozen=True):
    """A further output of a call that the model has gone on from."""

    call: PairedCall
    output: JSON


Step = JSON | PairedCall | Answer | LateOutput


def pair(items: list[JSON], pending: frozenset[str] = frozenset()) -> Paired:
    """Pairs the calls of a whole history.

    Args:
        items: public items in order.
        pending: call_ids of the response that this request continues; they must be answered.

    Raises:
        RequestError: an orphan output, or a pending call without one.
    """
    pairing = Pairing()
    for item in items:
        pairing.add(item)
    pairing.check(pending)
    return Paired(steps=[*pairing.take(), *pairing.open_answers()], notes=pairing.notes)


class Pairing:
    """A pairing that grows with its history: what `take` has given never changes, with one exception.

    Attributes:
        notes: what was left out, for the log.
        is_rewritten: the exception: an output came for a call that had been given up, so that its place was taken.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.is_rewritten = False
        self._latest: dict[tuple[str, str], PairedCall] = {}
        self._upstream_ids: set[str] = set()
        self._times: dict[str, int] = {}
        self._run: list[PairedCall] = []
        # Of the run: those without an output by kind and id, so that no output has to look at every call.
        self._waiting: dict[tuple[str, str], deque[PairedCall]] = {}
        self._is_run_answered = False
        self._unanswered: dict[str, PairedCall] = {}
        self._steps: list[Step] = []

    def add(self, item: JSON) -> None:
        """The next item of the history.

        Raises:
            RequestError: an orphan output.
        """
        kind = item.get("type")
        if kind in OUTPUT_OF:
            self._call(item)
        elif kind in _CALL_OF:
            self._output(item)
        else:
            self._other(item)

    def take(self) -> list[Step]:
        """The steps since the last time that are settled."""
        steps, self._steps = self._steps, []
        return steps

    def open_answers(self) -> list[Step]:
        """The answers of the last run of calls, as if the history ended here. Changes nothing."""
        return [Answer(call=call) for call in self._run]

    def unanswered(self) -> list[JSON]:
        """The calls without an output, in order."""
        return [call.item for call in self._unanswered.values()]

    def check(self, pending: frozenset[str]) -> None:
        """Whether each of these call_ids has an output.

        Raises:
            RequestError: one has none.
        """
        for call in self._unanswered.values():
            kind, call_id = call.item["type"], call.item["call_id"]
            if call_id in pending and kind in _WORDS and self._latest[kind, call_id] is call:
                words = _WORDS[kind]
                raise RequestError(f"No tool output found for {words} {call_id}.", param="input")

    def _call(self, item: JSON) -> None:
        call_id = item.get("call_id")
        if not call_id:
            self.notes.append(f"{item['type']} without a call_id: left out")
            return
        call = PairedCall(item=item, upstream_id=self._upstream_id(call_id), outputs=[])
        self._close_answered()
        self._latest[item["type"], call_id] = call
        self._unanswered[call.upstream_id] = call
        self._run.append(call)
        self._waiting.setdefault((item["type"], call_id), deque()).append(call)
        self._steps.append(call)

    def _upstream_id(self, call_id: str) -> str:
        times = self._times.get(call_id, 0) + 1
        numbered = call_id if times == 1 else f"{call_id}_{times}"
        while numbered in self._upstream_ids:
            times += 1
            numbered = f"{call_id}_{times}"
        self._times[call_id] = times
        self._upstream_ids.add(numbered)
        return numbered

    def _close_answered(self) -> None:
        """The model speaks again: a run that has outputs already is over."""
        if self._is_run_answered:
            self._end_run()

    def _output(self, item: JSON) -> None:
        kind = item["type"]
        call = self._call_of(kind, item.get("call_id") or "")
        if call is None:
            self._orphan(item)
        elif not call.outputs or (not call.is_closed and kind != "tool_search_output"):
            self.is_rewritten |= call.is_closed
            self._is_run_answered |= not call.is_closed
            self._unanswered.pop(call.upstream_id, None)
            call.outputs.append(item)
        elif kind == "tool_search_output":
            self.notes.append(f"tool_search_output {item['call_id']}: a duplicate, left out")
        else:
            self._end_run()
            self._steps.append(LateOutput(call=call, output=item))

    def _call_of(self, kind: str, call_id: str) -> PairedCall | None:
        """The first call of this run that waits for such an output, else the latest call of this id."""
        wanted = _CALL_OF[kind], call_id
        waiting = self._waiting.get(wanted)
        return waiting.popleft() if waiting else self._latest.get(wanted)

    def _orphan(self, item: JSON) -> None:
        kind, call_id = item["type"], item.get("call_id")
        if kind == "tool_search_output":
            self.notes.append(f"tool_search_output {call_id}: no call, left out")
            return
        words = _WORDS[_CALL_OF[kind]]
        raise RequestError(
            f"No tool call found for {words} output with call_id {call_id}.", param="input"
        )

    def _other(self, item: JSON) -> None:
        if item.get("role") == "assistant" or item.get("type") == "reasoning":
            self._close_answered()
        else:
            self._end_run()
        self._steps.append(item)

    def _end_run(self) -> None:
        for call in self._run:
            call.is_closed = True
            self._steps.append(Answer(call=call))
        self._run = []
        self._waiting = {}
        self._is_run_answered = False
