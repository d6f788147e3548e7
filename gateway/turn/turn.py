"""The sans-IO state machine of one response, the same behind blocking JSON, SSE and WebSocket.

Inputs are `send`, `start`, `receive`, `receive_eof`, `fail`, `cancel`; after each of them `events_to_send` gives the
public events that may leave now. The transports differ only in what they do with these.
"""

from collections.abc import Callable
from typing import Final

from msgspec import structs

from gateway.errors import GatewayError, InternalError, UpstreamError
from gateway.tools.gate import CallVerdict
from gateway.tools.row import NewId
from gateway.turn import items as flight
from gateway.turn.compaction import Summarizer
from gateway.turn.history import History
from gateway.turn.opening import Opener
from gateway.turn.request import Prepared, TurnOptions, prepare
from gateway.turn.state import ENDS, ItemState, ItemTrigger, Trigger, TurnState, next_turn_state
from gateway.turn.thread import Grown
from gateway.wire import events
from gateway.wire.json import JSON
from gateway.wire.response import ended, new_response

_DELTAS: Final = frozenset(
    f"response.{kind}.delta"
    for kind in (
        "output_text",
        "refusal",
        "reasoning_text",
        "reasoning_summary_text",
        "function_call_arguments",
    )
)


class Turn:
    """One response.

    Args:
        request: the checked public request.
        history: what its `previous_response_id` stands for.
        options: see `TurnOptions`.
        new_id: makes ids from a prefix.
        now: seconds since 1970.

    Raises:
        RequestError: the request cannot be lowered; nothing has been sent then.
    """

    def __init__(
        self,
        request: JSON,
        history: History,
        options: TurnOptions,
        new_id: NewId,
        now: Callable[[], int],
    ) -> None:
        self._request = request
        self._history = history
        self._new_id = new_id
        self._now = now
        self._how = options.lowering(request)
        self._prepared = prepare(request, history, self._how)
        # The input of this turn alone, in public form.
        self.new_items = self._prepared.new_items
        self._summarizer = self._new_summarizer(self._prepared)
        self._opener = Opener(new_id)
        # The response goes on with another answer: `request_to_send` has its request.
        self.goes_on = False
        self._is_shortened = False
        self._slot: flight.ItemSlot | None = None
        self._item_id: str | None = None
        self._index = -1
        self._sequence = 0
        self._events: list[JSON] = []
        # Once the public stream has begun, an error can no longer be an HTTP status.
        self.is_started = False
        self.output: list[JSON] = []
        self._given: list[JSON] = []
        # What the grammars of custom tools say of the calls, in order.
        self.verdicts: list[CallVerdict] = []
        self.notes = self._prepared.thread.notes
        self.error: GatewayError | None = None
        self.state = TurnState.NEW
        self.response = new_response(request, self._prepared.public_tools, new_id("resp"), now())

    def _new_summarizer(self, prepared: Prepared) -> Summarizer | None:
        plan = prepared.plan
        return None if plan is None else Summarizer(self._how.sealer, plan, self._new_id)

    # -- what the caller may ask

    @property
    def is_done(self) -> bool:
        """Whether an end has been reached."""
        return self.state in ENDS

    @property
    def given_output(self) -> list[JSON]:
        """The finished items that the client has been given: what a later turn continues from."""
        return self._given

    def request_to_send(self) -> JSON:
        """The lowered request for the dialect: the only one, or the next one when the response `goes_on`."""
        self.goes_on = False
        return self._prepared.lowered

    def unconstrained_request(self) -> JSON | None:
        """The same without the patterns of grammars, for a server that refuses these; None when there are none."""
        return self._prepared.unconstrained()

    def next_history(self) -> History:
        """What is continued from after this turn."""
        history = self._history.extended(self.new_items, self._given)
        if self._prepared.plan is not None:
            return history
        return structs.replace(history, grown=Grown(self._prepared.thread))

    def shorten(self) -> bool:
        """Makes a request for a summary shorter, once: the server's context is full. False when it cannot be done."""
        shorter = None if self._is_shortened else self._prepared.shortened()
        if shorter is None:
            return False
        self._is_shortened = True
        self._prepared = shorter
        self.notes.append("compaction: the context is full, the summary leaves out the oldest part")
        return True

    def events_to_send(self) -> list[JSON]:
        """The public events that may leave, in order, each of them once."""
        ready, self._events = self._events, []
        return ready

    # -- what happens

    def send(self) -> None:
        """The lowered request is on its way."""
        self._advance(Trigger.SEND)

    def start(self) -> None:
        """Begins the public stream, once."""
        if self.state is TurnState.SENT:
            self._advance(Trigger.START)
            self._begin()
            for event in self._summarizer.begin() if self._summarizer is not None else ():
                self._take(event)

    def queue(self) -> None:
        """Begins the public stream of a background response before anything else: it has its id, and waits."""
        self.is_started = True
        self.response = {**self.response, "status": "queued"}
        self._emit([events.lifecycle("created", self.response)])
        self._emit([events.lifecycle("queued", self.response)])

    def _begin(self) -> None:
        if self.is_started:
            self.response = {**self.response, "status": "in_progress"}
        else:
            self.is_started = True
            self._emit([events.lifecycle("created", self.response)])
        self._emit([events.lifecycle("in_progress", self.response)])

    def heartbeat(self) -> None:
        """Breaks a silence: a repeated `response.in_progress`, since clients' idle timers ignore anything less."""
        self.start()
        if self.state is TurnState.STREAMING:
            self._emit([events.lifecycle("in_progress", self.response)])

    def warm_up(self) -> None:
        """Answers `generate: false`: complete at once, no output, nothing upstream."""
        self._advance(Trigger.WARM_UP)
        self._begin()
        self._finish("completed", None, completed_at=self._now())

    def receive(self, event: JSON) -> None:
        """Takes one canonical event of the upstream's answer."""
        if self._summarizer is None:
            self._take(event)
            return
        self.start()
        for rewritten in self._summarizer.feed(event):
            if rewritten["type"] == "response.completed" and self._summarizer.goes_on:
                self._go_on()
            else:
                self._take(rewritten)

    def _go_on(self) -> None:
        """The summary is there: what was said before it is not sent any more, and the answer follows."""
        compacted = History(items=(self.output[-1],))
        self._prepared = prepare({**self._request, "input": []}, compacted, self._how)
        self._summarizer = None
        self.goes_on = True

    def _take(self, event: JSON) -> None:
        if self.state is not TurnState.STREAMING:
            # While streaming the row leads back to itself; the table is asked only where it can say something new.
            self.start()
            self._advance(Trigger.EVENT)
            if self.is_done:
                return
        kind = event["type"]
        if kind in _DELTAS and self._slot is not None:
            self._emit(self._slot.item.delta(event))
            return
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, event)
        else:
            self._foreign(event)

    def _added(self, event: JSON) -> None:
        self._index += 1
        item = self._opener.open(event["item"], self._index, self._prepared.thread)
        self._slot = flight.ItemSlot(item)
        opened = self._slot.item.open()
        self._item_id = opened[0]["item"]["id"] if opened else None
        self._emit(opened)

    def _done(self, event: JSON) -> None:
        slot = self._open_slot()
        item = event["item"]
        is_cut = item.get("status") == "incomplete"
        slot.advance(ItemTrigger.CUT if is_cut else ItemTrigger.DONE)
        public, finished = slot.item.cut(item) if is_cut else slot.item.close(item)
        self._emit(public)
        self._judged(slot.item)
        self._slot = None
        if finished:
            self.output.append(finished)
        if public and public[-1]["type"] == "response.output_item.done":
            self._given.append(finished)

    def _judged(self, item: flight.OpenItem) -> None:
        if isinstance(item, flight.Call) and item.verdict is not None:
            self.verdicts.append(item.verdict)
            self.notes.append(item.verdict.note())

    def _open_slot(self) -> flight.ItemSlot:
        if self._slot is None:
            raise InternalError("turn: an item ends that was never added")
        return self._slot

    def _foreign(self, event: JSON) -> None:
        """Passes on what we do not know; inside an item it gets the ids that the client knows the item by."""
        moved = {**event}
        if self._slot is not None and "output_index" in event:
            if self._item_id is None:
                self.notes.append(f"{event['type']} inside a held call: left out")
                return
            moved["output_index"] = self._index
            if "item_id" in event:
                moved["item_id"] = self._item_id
        self._emit([moved])

    def _completed(self, event: JSON) -> None:
        self._advance(Trigger.COMPLETE)
        self._finish("completed", _usage(event), completed_at=self._now())

    def _incomplete(self, event: JSON) -> None:
        self._advance(Trigger.INCOMPLETE)
        details = event["response"]["incomplete_details"]
        self._finish("incomplete", _usage(event), incomplete_details=details)

    def _failed(self, event: JSON) -> None:
        error = event["response"]["error"]
        self.error = UpstreamError(error["message"], code=error["code"])
        self._advance(Trigger.FAIL)
        self._finish("failed", _usage(event), error=error)

    def receive_eof(self) -> None:
        """The answer has ended. Without a terminal event before it that is a failure, never `completed`."""
        self.start()
        if not self.is_done and not self.goes_on:
            self._advance(Trigger.EOF)
            self.error = UpstreamError("The model server's answer ended before it was complete.")
            self._finish("failed", None, error=self.error.response_error())

    def fail(self, error: GatewayError) -> None:
        """Ends the turn with an error. Before the stream has begun that is all the caller's to say."""
        if self.is_done:
            return
        self.error = error
        self._advance(Trigger.FAIL)
        if self.is_started:
            self._finish("failed", None, error=error.response_error())
        else:
            self.response = ended(self.response, "failed", [], None, error=error.response_error())

    def cancel(self) -> None:
        """The client is gone: nothing more is sent, what it has been given stays."""
        if not self.is_done:
            self._advance(Trigger.CANCEL)
            self._slot = None
            self.response = ended(self.response, "cancelled", self.output, None)

    def not_stored(self) -> None:
        """The store could not keep it: the terminal event, which has not left yet, says so."""
        self.response = {**self.response, "store": False}
        self._events[-1] = {**self._events[-1], "response": self.response}

    # -- inside

    def _advance(self, trigger: Trigger) -> None:
        self.state = next_turn_state(self.state, trigger)

    def _emit(self, public: list[JSON]) -> None:
        """Numbers fresh events and lines them up. They are ours, hence the one change in place."""
        for event in public:
            event["sequence_number"] = self._sequence
            self._sequence += 1
        self._events += public

    def _finish(self, status: str, usage: JSON | None, **fields: object) -> None:
        self._abandon()
        self.response = ended(self.response, status, self.output, usage, **fields)
        self._emit([events.lifecycle(status, self.response)])

    def _abandon(self) -> None:
        """Closes the item that an end of our own making has found open."""
        if self._slot is not None and self._slot.state is ItemState.OPEN:
            self._done({"item": {"status": "incomplete"}})


def _usage(event: JSON) -> JSON | None:
    usage: JSON | None = event["response"].get("usage")
    return usage


_HANDLERS: Final[dict[str, Callable[[Turn, JSON], None]]] = {
    "response.output_item.added": Turn._added,
    "response.output_item.done": Turn._done,
    "response.completed": Turn._completed,
    "response.incomplete": Turn._incomplete,
    "response.failed": Turn._failed,
}
