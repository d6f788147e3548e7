"""The gateway as its users run it: `python -m gateway serve --port 0 …` in a process of its own."""

import asyncio
import os
import re
import signal
import sys
from pathlib import Path
from types import TracebackType

from tests.peers.processes import MAX_LINE_BYTES, Tail, end

REPO = Path(__file__).resolve().parents[2]
# Starting takes under a second; the embedded model adds one, busy cores more.
START_SECONDS = 120.0
URL = re.compile(r"https?://[\w.\-]+:\d+")


class GatewayProcess:
    """A running gateway; `url` ends in /v1.

        async with GatewayProcess(tmp_path, "--upstream", upstream.url) as gateway: …

    Args:
        folder: its working directory and home, so that no file of the developer is read.
        arguments: what follows `serve --port 0`.
    """

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder = folder
        self._arguments = arguments
        self.url = ""
        self._is_killed = False

    async def __aenter__(self) -> "GatewayProcess":
        pipe = asyncio.subprocess.PIPE
        clean = {k: v for k, v in os.environ.items() if not k.startswith("RESPONSES_GATEWAY_")}
        home = str(self._folder)
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "serve", "--port", "0", *self._arguments),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=asyncio.subprocess.STDOUT,
            cwd=self._folder,
            env={**clean, "PYTHONPATH": str(REPO), "HOME": home, "XDG_CONFIG_HOME": home},
            start_new_session=True,
            limit=MAX_LINE_BYTES,
        )
        assert self._process.stdout is not None
        said: list[str] = []
        try:
            async with asyncio.timeout(START_SECONDS):
                while line := await self._process.stdout.readline():
                    said.append(line.decode(errors="replace"))
                    if url := self._own_url(said[-1]):
                        self.url = f"{url}/v1"
                        self._tail = Tail(self._process.stdout)
                        return self
        finally:
            if not self.url:
                await end(self._process)
        raise AssertionError(f"the gateway did not start:\n{''.join(said)}")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        code = await end(self._process)
        log = await self._tail.finish()
        if error is not None:
            print(f"--- gateway\n{log}", file=sys.stderr)
        elif code != 0 and not self._is_killed:
            raise AssertionError(f"the gateway ended with {code}:\n{log}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """As the kernel does it when memory runs out: the gateway and its workers, at once."""
        self._is_killed = True
        os.killpg(self.pid, signal.SIGKILL)

    @property
    def log(self) -> str:
        return "\n".join(self._tail.lines)

    def _own_url(self, line: str) -> str | None:
        """The URL in the line that tells where it listens; the upstream's may stand there too."""
        for url in URL.findall(line):
            if not any(url in argument for argument in self._arguments):
                return str(url)
        return None
