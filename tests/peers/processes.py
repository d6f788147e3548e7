"""Real programs for tests: what is started here is ended here, with its children, by its id."""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

# A program that is asked to end gets so long before it is killed.
END_SECONDS = 10.0
# Lines of Codex and of the gateway can hold a whole response.
MAX_LINE_BYTES = 64 * 1024 * 1024


@dataclass
class Finished:
    """A program that ran to its end."""

    code: int
    stdout: str
    stderr: str


async def end(process: asyncio.subprocess.Process, with_signal: int = signal.SIGTERM) -> int:
    """End a program and what it started (its session), first politely."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(with_signal)
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            pass
    # What is left of its group: it leads a session of its own, so nothing else can be in it.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    return await process.wait()


async def run(
    command: Sequence[str], *, env: Mapping[str, str], cwd: Path, seconds: float
) -> Finished:
    """Run a program to its end.

    Raises:
        TimeoutError: it took longer than `seconds`; it has been ended.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            stdout, stderr = await process.communicate()
    finally:
        await end(process)
    assert process.returncode is not None
    return Finished(process.returncode, stdout.decode(), stderr.decode(errors="replace"))


class Tail:
    """The last lines of a stream, read for as long as it lives, so that its writer never blocks."""

    def __init__(self, stream: asyncio.StreamReader, lines: int = 400) -> None:
        self.lines: deque[str] = deque(maxlen=lines)
        self._changed = asyncio.Condition()
        self._task = asyncio.create_task(self._read(stream))

    async def _read(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.readline():
            self.lines.append(chunk.decode(errors="replace").rstrip("\n"))
            async with self._changed:
                self._changed.notify_all()

    async def until(self, text: str) -> None:
        """Wait for a line with this in it."""
        async with self._changed:
            await self._changed.wait_for(lambda: any(text in line for line in self.lines))

    async def finish(self) -> str:
        """Everything that is left after the writer has ended."""
        await self._task
        return "\n".join(self.lines)


async def lines_of(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    while line := await stream.readline():
        yield line.decode(errors="replace")
