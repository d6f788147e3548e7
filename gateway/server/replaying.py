"""Runs a recording again: the same bytes, ids, clock and triggers into the same state machine, no network.

What comes out is held to what was recorded: each request to the model server, each public event, the
end. The first difference is told. Both sides are masked before they are compared, so that the stars of a
recording differ from nothing.
"""

import base64
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from gateway.errors import GatewayError, RequestError
from gateway.server.differences import first_difference, short
from gateway.server.masking import Masker
from gateway.server.recording_lines import NotARecording
from gateway.tools.options import ToolOptions
from gateway.turn.compaction import Sealer
from gateway.turn.history import History
from gateway.turn.request import TurnOptions
from gateway.turn.turn import Turn
from gateway.upstream.dialect import Dialect, Reader, make_dialect
from gateway.upstream.errors import read_error
from gateway.upstream.profiles import Profile
from gateway.wire.json import JSON, dumps, loads


class Difference(msgspec.Struct, frozen=True):
    """The first thing that is not as it was recorded.

    Attributes:
        line: of the file, from 1.
        what: in words.
        path: where in the value, such as `events[3].delta`.
        recorded: the value then.
        now: the value now.
    """

    line: int
    what: str
    path: str = ""
    recorded: str = ""
    now: str = ""

    def __str__(self) -> str:
        text = f"line {self.line}: {self.what}"
        if self.path:
            text += f" at {self.path}"
        return f"{text}\n  recorded: {self.recorded}\n  now:      {self.now}"


class Differs(Exception):
    """Ends a run."""

    def __init__(self, difference: Difference) -> None:
        super().__init__(str(difference))
        self.difference = difference


def replay(lines: list[JSON]) -> Difference | None:
    """Run it.

    Returns:
        The first difference, None when there is none.

    Raises:
        NotARecording: a line cannot be used.
    """
    run = Replay(lines)
    try:
        run.run()
    except Differs as differs:
        return differs.difference
    except _AtTheCut:
        return None
    except msgspec.ValidationError as error:
        raise NotARecording(f"line {run.number} was made by another gateway: {error}") from None
    return None


class _AtTheCut(Exception):
    """What comes next is behind the end of what was kept."""


class Replay:
    """One run of one recording.

    Args:
        lines: what `read_lines` has given.
    """

    def __init__(self, lines: list[JSON]) -> None:
        self._lines = lines
        self.number = 0
        self._masker = Masker()
        self._ids = self._values("id")
        self._times = self._values("now")
        self._seals = deque(line["text"] for line in lines if line["kind"] == "seal")
        self._opened = {line["text"]: line["value"] for line in lines if line["kind"] == "unseal"}
        self._turn: Turn | None = None
        self._error: GatewayError | None = None
        self._profile = Profile()
        self._dialect: Dialect = make_dialect(self._profile)
        self._reader: Reader | None = None
        self._answer: JSON = {}
        self._body: list[bytes] = []
        self._is_refused = False
        self._is_cut = any(line["kind"] == "cut" for line in lines)

    def run(self) -> None:
        """Take one line after the other.

        Raises:
            Differs: at the first difference.
        """
        for number, line in enumerate(self._lines, start=1):
            self.number = number
            handler = _LINES.get(line["kind"])
            if handler is None:
                raise NotARecording(f"line {number} is of the unknown kind {line['kind']!r}")
            try:
                handler(self, line)
            except (Differs, NotARecording, _AtTheCut, msgspec.ValidationError):
                raise
            except Exception:  # an edge: a bug of the state machine is what is looked for
                trace = traceback.format_exc(limit=-6)
                raise self._differs("the gateway fails", "", "", trace) from None

    # -- what the turn needs of the world

    def _values(self, kind: str) -> deque[Any]:
        return deque(line["value"] for line in self._lines if line["kind"] == kind)

    def _new_id(self, prefix: str) -> str:
        id: str = self._next(self._ids, "one more id is asked for", prefix)
        if not id.startswith(f"{prefix}_"):
            raise self._differs("another kind of id is asked for", "", id, prefix)
        return id

    def _now(self) -> int:
        seconds: int = self._next(self._times, "the clock is asked once more", "now()")
        return seconds

    def _seal(self, value: JSON) -> str:
        text: str = self._next(self._seals, "something is sealed", short(value))
        return text

    def _next(self, recorded: deque[Any], what: str, now: str) -> Any:
        if recorded:
            return recorded.popleft()
        if self._is_cut:
            raise _AtTheCut
        raise self._differs(what, "", "none", now)

    def _unseal(self, text: str) -> Any:
        if text not in self._opened and self._is_cut:
            raise _AtTheCut
        value = self._opened.get(text)
        if value is None:
            raise ValueError("not opened then")
        return value

    # -- the lines

    def _nothing(self, line: JSON) -> None:
        """It was read at the beginning, or is the end of what was kept."""

    def _new_turn(self, line: JSON) -> None:
        history = History(
            items=tuple(line["history"]["items"]), pending=frozenset(line["history"]["pending"])
        )
        options = TurnOptions(
            tools=msgspec.convert(line["options"]["tools"], ToolOptions),
            model=line["options"]["model"],
            sealer=Sealer(seal=self._seal, unseal=self._unseal),
        )
        try:
            self._turn = Turn(line["request"], history, options, self._new_id, self._now)
        except GatewayError as error:
            self._error = error

    def _target(self, line: JSON) -> None:
        self._profile = msgspec.convert(line["profile"], Profile)
        self._dialect = make_dialect(self._profile)

    def _asked(self, line: JSON) -> None:
        """The first request of an answer, or the same without patterns after a refusal."""
        self._compare(
            "the path of the request to the model server", line["path"], self._dialect.path
        )
        lowered = (
            self._now_running.unconstrained_request()
            if self._is_refused
            else self._now_running.request_to_send()
        )
        if lowered is None:
            raise self._differs("the model server is not asked again", "", "asked", "not asked")
        try:
            body = self._dialect.encode(lowered)
        except RequestError as error:
            raise self._differs("the request cannot be written", "", "", error.message) from None
        masked = self._masker.mask(body)
        recorded = line["body"].encode()
        if masked != recorded:
            what = "the request to the model server"
            self._compare(what, loads(recorded), loads(masked), "body")
            raise self._differs(f"{what}: the same JSON in other bytes", "body", "", "")

    def _answered(self, line: JSON) -> None:
        self._answer = line
        self._body = []
        self._is_refused = line["status"] != 200
        headers = {name.lower(): value for name, value in line["headers"]}
        content_type = headers.get("content-type", "application/octet-stream")
        self._reader = self._dialect.reader(content_type.partition(";")[0].strip().lower())

    def _chunk(self, line: JSON) -> None:
        data = line["text"].encode() if "text" in line else base64.b64decode(line["base64"])
        self._body.append(data)
        if self._is_refused or self._reader is None:
            return
        for event in self._reader.feed(data):
            self._now_running.receive(event)

    def _eof(self, line: JSON) -> None:
        if self._reader is not None:
            for event in self._reader.finish():
                self._now_running.receive(event)
        self._now_running.receive_eof()

    def _shorten(self, line: JSON) -> None:
        self._is_refused = False
        self._now_running.shorten()

    def _queue(self, line: JSON) -> None:
        """A background response: its first events go to its log by another way."""
        self._now_running.queue()
        self._now_running.events_to_send()

    def _fail(self, line: JSON) -> None:
        recorded = line["error"]
        error = GatewayError(**{**recorded, "headers": None})
        if self._is_refused:
            headers = dict(self._answer["headers"])
            body = b"".join(self._body)
            error = read_error(self._profile, self._answer["status"], headers, body)
        now = {**error.fields(), "status": error.status}
        self._compare("the error", self._masked(recorded), self._masked(now), "error")
        self._now_running.fail(error)

    def _sent(self, line: JSON) -> None:
        ready = [self._masked(event) for event in self._now_running.events_to_send()]
        self._compare("the events to the client", line["events"], ready, "events")

    def _end(self, line: JSON) -> None:
        turn = self._turn
        if turn is None:
            now = self._error.fields() | {"status": self._error.status} if self._error else None
            self._compare("the refusal", line["error"], self._masked(now), "error")
            return
        self._compare("the state at the end", line["state"], turn.state.value, "state")
        self._compare("the response", line["response"], self._masked(turn.response), "response")
        left = turn.events_to_send()
        # After any other end the client was gone, or was told by an error.
        if left and line["state"] in ("completed", "incomplete") and not line["gone"]:
            raise self._differs("more events are left to send", "", "none", short(left[0]))

    # -- inside

    @property
    def _now_running(self) -> Turn:
        if self._turn is None:
            message = self._error.message if self._error is not None else "no turn was made"
            raise self._differs("the request is refused", "", "a turn", message)
        return self._turn

    def _masked(self, value: Any) -> Any:
        return loads(self._masker.mask(dumps(value)))

    def _compare(self, what: str, recorded: Any, now: Any, path: str = "") -> None:
        found = first_difference(recorded, now, path)
        if found is not None:
            raise self._differs(what, *found)

    def _differs(self, what: str, path: str, recorded: Any, now: Any) -> Differs:
        texts = [value if isinstance(value, str) else short(value) for value in (recorded, now)]
        return Differs(Difference(self.number, what, path, *texts))


def _trigger(name: str) -> "_Line":
    def act(run: Replay, line: JSON) -> None:
        getattr(run._now_running, name)()

    return act


_Line = Callable[[Replay, JSON], None]

_LINES: dict[str, _Line] = {
    "recording": Replay._nothing,
    "id": Replay._nothing,
    "now": Replay._nothing,
    "seal": Replay._nothing,
    "unseal": Replay._nothing,
    "cut": Replay._nothing,
    "turn": Replay._new_turn,
    "target": Replay._target,
    "asked": Replay._asked,
    "answered": Replay._answered,
    "chunk": Replay._chunk,
    "eof": Replay._eof,
    "shorten": Replay._shorten,
    "queue": Replay._queue,
    "fail": Replay._fail,
    "sent": Replay._sent,
    "end": Replay._end,
    **{
        name: _trigger(name)
        for name in ("send", "start", "heartbeat", "warm_up", "cancel", "not_stored")
    },
}
