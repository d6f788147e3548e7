"""The real Codex CLI as a test client: installed by npm once, configured afresh for every test.

`Codex.exec` is one `codex exec --json` run; `Codex.app_server` drives several turns, interrupts and
resumes in one process. Nothing outside the given folder is read or written by it.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.peers.catalog import write_catalog
from tests.peers.processes import MAX_LINE_BYTES, Tail, end, run

JSON = dict[str, Any]

REPO = Path(__file__).resolve().parents[2]
VERSION = "0.171.0"
# The oldest version that is still looked after.
OLD_VERSION = "0.147.0"
# Another binary, for trying a newer Codex.
BINARY_VARIABLE = "RESPONSES_GATEWAY_CODEX"
MCP_SERVER = Path(__file__).with_name("mcp_weather.py")
KEY = "sk-test"
# One turn against a scripted model takes about two seconds; against the real small model half a
# minute on idle cores, several on busy ones.
TURN_SECONDS = 240.0


def codex_binary(version: str = VERSION) -> str:
    """A pinned Codex, installed into the repository's ignored `.peers/` at the first call."""
    given = os.environ.get(BINARY_VARIABLE)
    if given and version == VERSION:
        return given
    folder = REPO / ".peers" / f"codex-{version}"
    binary = folder / "node_modules" / ".bin" / "codex"
    if not binary.exists():
        npm = shutil.which("npm")
        assert npm is not None, "npm is needed to install the real Codex CLI"
        folder.mkdir(parents=True, exist_ok=True)
        folder.parent.joinpath(".gitignore").write_text("*\n")
        package = f"@openai/codex@{version}"
        command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*command, package], check=True, timeout=600, stdout=subprocess.DEVNULL)
    return str(binary)


def config(
    base_url: str, catalog: Path, *, model: str, websocket: bool, mcp: bool, provider: str
) -> str:
    """A config.toml that knows the gateway as its only provider and nothing of the network."""
    text = f"""
        model = {json.dumps(model)}
        model_provider = "gateway"
        model_catalog_json = {json.dumps(str(catalog))}
        approval_policy = "never"
        sandbox_mode = "danger-full-access"
        check_for_update_on_startup = false
        web_search = "disabled"

        [features]
        plugins = false

        [model_providers.gateway]
        name = {json.dumps(provider)}
        base_url = {json.dumps(base_url)}
        wire_api = "responses"
        env_key = "GATEWAY_KEY"
        supports_websockets = {json.dumps(websocket)}
        request_max_retries = 0
        stream_max_retries = 0
    """
    if mcp:
        text += f"""
        [mcp_servers.weather]
        command = {json.dumps(sys.executable)}
        args = [{json.dumps(str(MCP_SERVER))}]
        """
    return "\n".join(line.strip() for line in text.splitlines())


@dataclass
class Run:
    """What `codex exec --json` said."""

    code: int
    events: list[JSON]
    stderr: str

    @property
    def thread_id(self) -> str:
        return next(str(e["thread_id"]) for e in self.events if e["type"] == "thread.started")

    @property
    def items(self) -> list[JSON]:
        return [event["item"] for event in self.events if event["type"] == "item.completed"]

    @property
    def message(self) -> str:
        """The last text of the agent."""
        texts = [item["text"] for item in self.items if item["type"] == "agent_message"]
        assert texts, f"no message among {self.events}\n{self.stderr}"
        return str(texts[-1])

    def check(self) -> "Run":
        """The turn was completed and nothing was reported as an error."""
        failures = [e for e in self.events if e["type"] in ("error", "turn.failed")]
        failures += [item for item in self.items if item["type"] == "error"]
        assert self.code == 0, f"exit {self.code}: {failures}\n{self.stderr}"
        assert not failures, f"{failures}\n{self.stderr}"
        assert self.events[-1]["type"] == "turn.completed"
        return self


@dataclass
class Codex:
    """A Codex with a home and a workspace of its own below `folder`.

    Attributes:
        folder: where everything of it lives.
        base_url: the gateway's URL, ending in /v1.
        websocket: which transport it may use; False is HTTP SSE.
        model: an entry of the catalogue (catalog.py).
        mcp: with the weather tools.
        context_window: what the catalogue says of the model.
        version: which Codex.
        provider: the provider's name; "OpenAI" switches remote compaction on.
    """

    folder: Path
    base_url: str
    websocket: bool = True
    model: str = "freeform"
    mcp: bool = False
    context_window: int = 128000
    version: str = VERSION
    provider: str = "Gateway"
    arguments: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.home = self.folder / "codex-home"
        self.work = self.folder / "workspace"
        self.home.mkdir(parents=True)
        self.work.mkdir()
        catalog = self.home / "catalog.json"
        write_catalog(catalog, context_window=self.context_window)
        self.home.joinpath("config.toml").write_text(
            config(
                self.base_url,
                catalog,
                model=self.model,
                websocket=self.websocket,
                mcp=self.mcp,
                provider=self.provider,
            )
        )
        self.env = {
            **os.environ,
            "HOME": str(self.home),
            "CODEX_HOME": str(self.home),
            "GATEWAY_KEY": KEY,
            "RUST_LOG": "warn",
        }

    async def exec(self, prompt: str, *, resume: str = "", seconds: float = TURN_SECONDS) -> Run:
        """One run; `resume` continues the thread of an earlier one."""
        command = [codex_binary(self.version), "exec", "--json", "--skip-git-repo-check"]
        command += ["-C", str(self.work), *self.arguments]
        command += ["resume", resume, prompt] if resume else [prompt]
        done = await run(command, env=self.env, cwd=self.work, seconds=seconds)
        events = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return Run(done.code, events, done.stderr)

    def app_server(self) -> "AppServer":
        return AppServer(self)


@dataclass
class Turn:
    """A turn that has ended."""

    status: str
    error: str
    notes: list[JSON]

    @property
    def items(self) -> list[JSON]:
        notes = [note for note in self.notes if note.get("method") == "item/completed"]
        return [note["params"]["item"] for note in notes]

    @property
    def message(self) -> str:
        return str([item["text"] for item in self.items if item["type"] == "agentMessage"][-1])


class AppServer:
    """`codex app-server`: JSON-RPC over stdio, several turns in one process."""

    def __init__(self, codex: Codex) -> None:
        self._codex = codex
        self._last_id = 0
        self._notes: list[JSON] = []
        self.thread_id = ""

    async def __aenter__(self) -> "AppServer":
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            codex_binary(self._codex.version),
            "app-server",
            *self._codex.arguments,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self._codex.env,
            cwd=self._codex.work,
            start_new_session=True,
            limit=MAX_LINE_BYTES,
        )
        assert self._process.stderr is not None
        self._stderr = Tail(self._process.stderr)
        try:
            await self.call("initialize", {"clientInfo": {"name": "tests", "version": "1"}})
            await self._send({"method": "initialized"})
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
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
        await self._stderr.finish()

    async def start_thread(self) -> str:
        where = {"cwd": str(self._codex.work), "approvalPolicy": "never"}
        result = await self.call("thread/start", {**where, "sandbox": "danger-full-access"})
        self.thread_id = result["thread"]["id"]
        return self.thread_id

    async def resume_thread(self, thread_id: str) -> None:
        await self.call("thread/resume", {"threadId": thread_id})
        self.thread_id = thread_id

    async def turn(self, text: str) -> Turn:
        await self.start_turn(text)
        return await self.finish_turn()

    async def start_turn(self, text: str) -> str:
        """Begin a turn and return its id; `finish_turn` or `interrupt` must follow."""
        self._notes = []
        content = [{"type": "text", "text": text}]
        params = {"threadId": self.thread_id, "input": content}
        return str((await self.call("turn/start", params))["turn"]["id"])

    async def finish_turn(self) -> Turn:
        note = await self._until(lambda message: message.get("method") == "turn/completed")
        turn = note["params"]["turn"]
        return Turn(turn["status"], (turn.get("error") or {}).get("message") or "", self._notes)

    async def compact(self) -> Turn:
        """Have the thread compacted, as a turn of its own."""
        self._notes = []
        await self.call("thread/compact/start", {"threadId": self.thread_id})
        return await self.finish_turn()

    async def until_item_started(self, kind: str) -> None:
        """Wait until Codex has begun with an item of that type in the running turn."""
        await self._until(
            lambda message: (
                message.get("method") == "item/started"
                and message["params"]["item"]["type"] == kind
            )
        )

    async def interrupt(self, turn_id: str) -> Turn:
        await self.call("turn/interrupt", {"threadId": self.thread_id, "turnId": turn_id})
        return await self.finish_turn()

    async def call(self, method: str, params: JSON) -> JSON:
        self._last_id += 1
        number = self._last_id
        await self._send({"id": number, "method": method, "params": params})
        answer = await self._until(lambda m: m.get("id") == number and "method" not in m)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return dict(answer["result"])

    async def _send(self, message: JSON) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        await self._process.stdin.drain()

    async def _until(self, wanted: Any) -> JSON:
        """Read messages up to the wanted one, which may have come already; keep the others."""
        for note in self._notes:
            if wanted(note):
                return note
        assert self._process.stdout is not None
        async with asyncio.timeout(TURN_SECONDS):
            while line := await self._process.stdout.readline():
                message: JSON = json.loads(line)
                self._notes.append(message)
                if "id" in message and "method" in message:
                    await self._send({"id": message["id"], "result": {"decision": "accept"}})
                if wanted(message):
                    return message
        raise AssertionError(f"codex app-server ended: {await self._stderr.finish()}")
