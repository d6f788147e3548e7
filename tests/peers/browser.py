"""A real Chromium: Debian's package, driven through playwright-core by a small node program."""

import asyncio
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.peers.processes import MAX_LINE_BYTES, end

REPO = Path(__file__).resolve().parents[2]
PLAYWRIGHT = "1.65.1"
INSTALL_FOLDER = REPO / ".peers" / f"playwright-core-{PLAYWRIGHT}"
DRIVER = Path(__file__).with_name("browser.mjs")
# One command; a wait inside the page ends earlier, with words.
COMMAND_SECONDS = 60.0


def chromium_path() -> str:
    """Debian's Chromium, installed at the first call where that is possible."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quietly = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update"], ["install", "-y", "--no-install-recommends", "chromium"]):
            subprocess.run(["apt-get", "-qq", *command], check=True, timeout=900, env=quietly)
        found = shutil.which("chromium")
    assert found is not None, "Chromium is needed: apt install chromium"
    return found


def modules() -> Path:
    """The pinned playwright-core, in the repository's ignored `.peers/`."""
    if not (INSTALL_FOLDER / "node_modules" / "playwright-core").exists():
        npm = shutil.which("npm")
        assert npm is not None, "npm is needed to install playwright-core"
        INSTALL_FOLDER.mkdir(parents=True, exist_ok=True)
        INSTALL_FOLDER.parent.joinpath(".gitignore").write_text("*\n")
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(INSTALL_FOLDER)]
        package = f"playwright-core@{PLAYWRIGHT}"
        subprocess.run([*command, package], check=True, timeout=600, stdout=subprocess.DEVNULL)
    return INSTALL_FOLDER


class Browser:
    """One Chromium with one page at a time."""

    async def __aenter__(self) -> "Browser":
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *("node", str(DRIVER), str(modules()), chromium_path()),
            stdin=pipe,
            stdout=pipe,
            start_new_session=True,
            limit=MAX_LINE_BYTES,
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await end(self._process)

    async def open(
        self, url: str, *, scheme: str = "light", width: int = 1200, height: int = 900
    ) -> None:
        await self.do("open", url=url, scheme=scheme, width=width, height=height)

    async def evaluate(self, script: str) -> Any:
        return await self.do("evaluate", script=script)

    async def until(self, script: str) -> None:
        """Wait until an expression is true on the page."""
        await self.do("until", script=script)

    async def said(self) -> list[str]:
        """Errors and warnings of the console since the last call."""
        return list(await self.do("said"))

    async def do(self, command: str, **given: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"command": command, **given}).encode() + b"\n")
        await self._process.stdin.drain()
        async with asyncio.timeout(COMMAND_SECONDS):
            line = await self._process.stdout.readline()
        assert line, "the browser has ended"
        answer = json.loads(line)
        assert "error" not in answer, f"{command}: {answer['error']}"
        return answer["value"]
