"""Several processes on one listening socket: forked, watched, and ended together."""

import logging
import os
import signal
from collections.abc import Callable
from types import FrameType

log = logging.getLogger(__name__)

# What each worker answers by itself: they change the level of its log.
PASSED_ON = (signal.SIGUSR1, signal.SIGUSR2)


def run_workers(count: int, work: Callable[[int], None]) -> bool:
    """Fork `count` workers and wait until all have ended.

    A worker that ends by itself takes the others with it: who started the gateway (systemd, a
    container) starts it again as a whole, and nothing runs on half its strength unseen.

    Args:
        count: how many.
        work: what each does, with its index; returns when the worker is told to end (SIGTERM).

    Returns:
        Whether one has failed.
    """
    pids = {_fork(index, work) for index in range(count)}
    is_ending = False

    def end(number: int, frame: FrameType | None) -> None:
        nonlocal is_ending
        is_ending = True
        for pid in pids:
            os.kill(pid, signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)

    def pass_on(number: int, frame: FrameType | None) -> None:
        for pid in pids:
            os.kill(pid, number)

    for number in PASSED_ON:
        signal.signal(number, pass_on)
    has_failed = False
    while pids:
        pid, status = os.waitpid(-1, 0)
        pids.discard(pid)
        code = os.waitstatus_to_exitcode(status)
        if code != 0 or not is_ending:
            log.error("worker %d ended with %d", pid, code)
            has_failed = True
            end(signal.SIGTERM, None)
    return has_failed


def _fork(index: int, work: Callable[[int], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work(index)
        code = 0
    except BaseException:  # the edge of a process: whatever it was, it is logged
        log.exception("worker %d", os.getpid())
    finally:
        os._exit(code)
