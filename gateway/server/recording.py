"""Recordings: both sides of a turn, with all that the state machine was given, one file a turn.

While the turn runs, what happens is only noted, by reference and within a bound; when it is over, a
thread masks the secrets and writes the file. A disk that is full or slow costs recordings, never a turn.
The format is docs/recordings.md; `replaying.py` runs a file again.
"""

import asyncio
import base64
import contextlib
import logging
import os
import queue
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gateway import __version__
from gateway.config import RecordConfig
from gateway.errors import GatewayError
from gateway.server.masking import Masker, shown_secrets
from gateway.server.recorded_turn import RecordedTurn
from gateway.server.recording_lines import VERSION
from gateway.server.watching import Begun, TurnWatch
from gateway.turn.history import History
from gateway.turn.request import TurnOptions
from gateway.turn.turn import Turn
from gateway.wire.json import JSON, dumps

if TYPE_CHECKING:
    from gateway.server.target import Target

log = logging.getLogger(__name__)

HEADER = "x-responses-gateway-record"
# Turns that wait to be written; when the disk is that slow, later ones are not recorded.
MAX_WAITING_RECORDINGS = 32
# What is left to write at the end gets so long.
CLOSE_SECONDS = 5.0
# A noted event or trigger, beside the bytes that it refers to.
NOTE_BYTES = 200

_is_ours = re.compile(r"\d{8}T\d{6}\.\d{3}Z-\w+-\w+\.jsonl(\.part)?").fullmatch

Note = tuple[float, str, JSON]


class Recording(TurnWatch):
    """Notes one turn.

    Args:
        begun: the turn at its beginning.
        limit: bytes that may be held.
        done: takes the finished recording.
    """

    def __init__(self, begun: Begun, limit: int, done: Callable[["Recording"], None]) -> None:
        self.begun = begun
        self.at = time.time()
        self.notes: list[Note] = []
        self.turn: Turn | None = None
        self.make_turn = self._make_turn
        self._began = time.monotonic()
        self._limit = limit
        self._held = 0
        self._done = done

    def note(self, kind: str, size: int = 0, **fields: Any) -> None:
        """Something has happened; what is beyond the bound is not kept."""
        if self._held > self._limit:
            return
        self._held += size + NOTE_BYTES
        self.notes.append((time.monotonic() - self._began, kind, fields))
        if self._held > self._limit:
            self.notes.append((time.monotonic() - self._began, "cut", {}))

    def _make_turn(
        self,
        request: JSON,
        history: History,
        options: TurnOptions,
        new_id: Callable[[str], str],
        now: Callable[[], int],
    ) -> Turn:
        self.note(
            "turn",
            request=request,
            history={"items": list(history.items), "pending": sorted(history.pending)},
            options={"tools": msgspec.to_builtins(options.tools), "model": options.model},
        )
        return RecordedTurn(self.note, request, history, options, new_id, now)

    def made(self, turn: Turn, target: "Target") -> None:
        self.turn = turn
        self.note("target", profile=msgspec.to_builtins(target.profile))

    def asked(self, path: str, body: bytes) -> None:
        self.note("asked", len(body), path=path, body=body)

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        self.note("answered", status=status, headers=list(headers.items()))

    def received(self, chunk: bytes) -> None:
        self.note("chunk", len(chunk), data=chunk)

    def sent(self, events: list[JSON]) -> None:
        self.note("sent", NOTE_BYTES * len(events), events=events)

    def ended(self, error: BaseException | None) -> None:
        turn = self.turn
        self.note(
            "end",
            state=turn.state.value if turn is not None else None,
            error=error.fields() | {"status": error.status}
            if isinstance(error, GatewayError)
            else None,
            gone=error is not None and not isinstance(error, GatewayError),
            response=turn.response if turn is not None else None,
        )
        self._done(self)

    @property
    def name(self) -> str:
        """The file's: by time, and findable by the response's id."""
        moment = datetime.fromtimestamp(self.at, UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3]
        id = self.turn.response["id"] if self.turn is not None else secrets.token_hex(8)
        return f"{moment}Z-{self.begun.transport}-{id}.jsonl"

    def lines(self, known: Iterable[str]) -> Iterator[bytes]:
        """The file, line by line, without the secrets that are known or can be told by their shape."""
        caller = self.begun.caller
        masker = Masker([*known, *shown_secrets(caller.headers)])
        first = {
            "kind": "recording",
            "version": VERSION,
            "gateway": __version__,
            "at": self.at,
            "transport": self.begun.transport,
            "path": caller.path,
            "headers": masker.headers(caller.headers),
        }
        yield masker.mask(dumps(first)) + b"\n"
        for (t, kind, fields), data in zip(
            self.notes, _masked_pieces(self.notes, masker), strict=True
        ):
            line = {"t": round(t, 4), "kind": kind, **_shown(kind, fields, data, masker)}
            yield masker.mask(dumps(line)) + b"\n"


def _masked_pieces(notes: list[Note], masker: Masker) -> list[bytes]:
    """For each note its bytes, masked as parts of the one answer or body that they belong to."""
    masked = [b""] * len(notes)
    answer: list[int] = []

    def close() -> None:
        pieces = masker.pieces([notes[at][2]["data"] for at in answer])
        for at, piece in zip(answer, pieces, strict=True):
            masked[at] = piece
        answer.clear()

    for at, (_, kind, fields) in enumerate(notes):
        if kind == "asked":
            close()
            masked[at] = masker.mask(fields["body"])
        elif kind == "chunk":
            answer.append(at)
    close()
    return masked


def _shown(kind: str, fields: JSON, data: bytes, masker: Masker) -> JSON:
    if kind == "asked":
        return {"path": fields["path"], "body": data.decode("utf-8", "replace")}
    if kind == "answered":
        return {**fields, "headers": masker.headers(fields["headers"])}
    if kind == "chunk":
        try:
            return {"text": data.decode()}
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(data).decode()}
    return fields


class Recorder:
    """Writes recordings; a watcher of the relay.

    Args:
        config: where to, and how much.
        secrets: what the gateway holds.
    """

    def __init__(self, config: RecordConfig, secrets: Iterable[str] = ()) -> None:
        self._config = config
        self._folder = Path(config.dir)
        self._secrets = [secret for secret in secrets if secret]
        self._waiting: queue.Queue[Recording | None] = queue.Queue(MAX_WAITING_RECORDINGS)
        self._thread: threading.Thread | None = None
        self.written = 0
        self.failed = 0
        self.last_error = ""

    def watch(self, begun: Begun) -> TurnWatch | None:
        """A turn begins: it is recorded when all are, or when it asks for that."""
        if not (self._config.every or begun.caller.records):
            return None
        return Recording(begun, self._config.max_bytes, self._take)

    def shown(self) -> JSON:
        """For the status page."""
        return {"written": self.written, "failed": self.failed, "last_error": self.last_error}

    async def close(self) -> None:
        """Write what waits, as long as that does not last."""
        if self._thread is None:
            return
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        await asyncio.to_thread(self._thread.join, CLOSE_SECONDS)

    def _take(self, recording: Recording) -> None:
        if self._thread is None:
            # Here, since a thread that is there before workers are forked is in none of them.
            self._thread = threading.Thread(target=self._work, name="recorder", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(recording)
        except queue.Full:
            self._missed("the disk is too slow")

    def _work(self) -> None:
        while (recording := self._waiting.get()) is not None:
            try:
                self._write(recording)
                self._prune()
                self.written += 1
            except OSError as error:
                self._missed(error.strerror or str(error))
            except Exception:  # an edge: one odd recording must not end the thread
                log.exception("a recording could not be written")
                self._missed("see the log")

    def _missed(self, why: str) -> None:
        self.failed += 1
        if why != self.last_error:
            self.last_error = why
            log.warning("turns are not recorded in %s: %s", self._folder, why)

    def _write(self, recording: Recording) -> None:
        """A file is there whole or not at all."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / recording.name
        part = path.with_name(f"{path.name}.part")
        left = self._config.max_bytes
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
            with open(descriptor, "wb") as file:
                for line in recording.lines(self._secrets):
                    left -= len(line)
                    if left < 0:
                        file.write(b'{"kind":"cut"}\n')
                        break
                    file.write(line)
            part.rename(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise

    def _prune(self) -> None:
        """The oldest go when there are too many; what has another name is not ours."""
        names = sorted(name for name in os.listdir(self._folder) if _is_ours(name))
        for name in names[: max(0, len(names) - self._config.max_files)]:
            (self._folder / name).unlink(missing_ok=True)
