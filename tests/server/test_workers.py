"""Several processes: when their end is a failure."""

import asyncio
import sys
import textwrap

import pytest

SCRIPT = textwrap.dedent(
    """
    import signal, sys
    from gateway.server.notify import Notifier
    from gateway.server.workers import run_workers

    def work(index, line):
        print("up", flush=True)
        if sys.argv[1] == "fails":
            sys.exit(3)
        signal.pause()

    sys.exit(run_workers(2, work, Notifier()))
    """
)


async def ended(way: str, *, tell: bool) -> int:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        SCRIPT,
        way,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    await process.stdout.readline()
    if tell:
        await process.stdout.readline()
        process.terminate()
    return await process.wait()


@pytest.mark.parametrize(
    ("way", "tell", "code"),
    [("waits", True, 0), ("fails", False, 1)],
    ids=["told to end before it can listen for that", "ends by itself"],
)
async def test_when_the_end_of_a_worker_is_a_failure(way: str, tell: bool, code: int) -> None:
    assert await ended(way, tell=tell) == code
