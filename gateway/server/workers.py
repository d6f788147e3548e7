"""Several processes on one listening socket: forked, watched, and ended together.

Each worker has a line to its parent, in the words of `notify`. The parent sums up what they tell
for systemd; the end of a line is the end of its worker.
"""

import logging
import os
import selectors
import signal
import socket
from collections.abc import Callable
from types import FrameType

from gateway.server.notify import Notifier, State, read_message, state_in

log = logging.getLogger(__name__)

Work = Callable[[int, Notifier], None]
# More than a message has: a status line and three short ones.
_READ_BYTES = 8192
_ENDING = (signal.SIGTERM, signal.SIGINT)
# What each worker answers by itself: they change the level of its log.
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


def run_workers(count: int, work: Work, notifier: Notifier) -> bool:
    """Fork `count` workers and wait until all have ended.

    A worker that ends by itself takes the others with it: who started the gateway (systemd, a
    container) starts it again as a whole, and nothing runs on half its strength unseen.

    Args:
        count: how many.
        work: what each does, with its index and its line to the parent; returns when the worker is
            told to end (SIGTERM).
        notifier: is told what holds for all of them together.

    Returns:
        Whether one has failed.
    """
    return _Parent(notifier).run(count, work)


class _Worker:
    """One worker as its parent knows it."""

    def __init__(self, pid: int, line: socket.socket) -> None:
        self.pid = pid
        self.line = line
        self.is_ready = False
        self.is_alive = False  # has said so since the parent last did
        self.state = State()


class _Parent:
    def __init__(self, notifier: Notifier) -> None:
        self._notifier = notifier
        self._workers: list[_Worker] = []
        self._is_ready = False
        self._is_ending = False
        self._has_failed = False

    def run(self, count: int, work: Work) -> bool:
        # A signal between two forks would leave workers that nobody ends: it waits.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        for index in range(count):
            self._workers.append(_fork(index, work, self._notifier.watchdog_seconds))
        for number in _ENDING:
            signal.signal(number, self._end)
        for number in PASSED_ON:
            signal.signal(number, self._pass_on)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                selector.register(worker.line, selectors.EVENT_READ, worker)
            while self._workers:
                for key, _ in selector.select():
                    if message := _read(key.data.line):
                        self._hear(key.data, message)
                    else:
                        selector.unregister(key.data.line)
                        self._bury(key.data)
        return self._has_failed

    def _end(self, number: int, frame: FrameType | None) -> None:
        if not self._is_ending:
            self._is_ending = True
            self._notifier.stopping(self._sum())
        for worker in self._workers:
            os.kill(worker.pid, signal.SIGTERM)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        for worker in self._workers:
            os.kill(worker.pid, number)

    def _bury(self, worker: _Worker) -> None:
        worker.line.close()
        self._workers.remove(worker)
        _, status = os.waitpid(worker.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        # Told to end before it could listen for that: it has done as it was told.
        is_as_told = self._is_ending and code in (0, -signal.SIGTERM)
        if not is_as_told:
            log.error("worker %d ended with %d", worker.pid, code)
            self._has_failed = True
            self._end(signal.SIGTERM, None)

    def _hear(self, worker: _Worker, message: bytes) -> None:
        fields = read_message(message)
        worker.is_ready |= fields.get("READY") == "1"
        worker.is_alive |= fields.get("WATCHDOG") == "1"
        worker.state = state_in(fields) or worker.state
        if not self._is_ready and all(worker.is_ready for worker in self._workers):
            self._is_ready = True
            self._notifier.ready(self._sum())
        else:
            self._notifier.status(self._sum())
        if all(worker.is_alive for worker in self._workers):
            self._notifier.alive()
            for heard in self._workers:
                heard.is_alive = False

    def _sum(self) -> State:
        states = [worker.state for worker in self._workers]
        return State(
            upstream=next((state.upstream for state in states if state.upstream), ""),
            turns=sum(state.turns for state in states),
            sockets=sum(state.sockets for state in states),
        )


def _read(line: socket.socket) -> bytes:
    """One message; nothing when the worker has ended."""
    try:
        return line.recv(_READ_BYTES)
    except ConnectionError:  # it was killed with a message of ours unread; there is none, but still
        return b""


def _fork(index: int, work: Work, watchdog_seconds: float) -> _Worker:
    # Messages stay apart, and the end is seen: SOCK_DGRAM has no end.
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid:
        theirs.close()
        return _Worker(pid, ours)
    code = 1
    try:
        ours.close()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        work(index, Notifier(theirs, watchdog_seconds))
        code = 0
    except BaseException:  # the edge of a process: whatever it was, it is logged
        log.exception("worker %d", os.getpid())
    finally:
        os._exit(code)
