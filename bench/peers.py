"""Other gateways, if they are installed: found on PATH or in the folder that $BENCH_PEERS names.

    python -m venv /tmp/peers && /tmp/peers/bin/pip install 'litellm[proxy]' agentic-api codex-relay
    BENCH_PEERS=/tmp/peers/bin make bench

None of them is needed. Each is started as its documentation says, on one worker, with the same model server behind it.
"""

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.processes import Served, child, free_port, until_answers

FOLDER_VARIABLE = "BENCH_PEERS"
KEY = "sk-bench-0123456789abcdef0123456789abcdef"

LITELLM = """
model_list:
  - model_name: "*"
    litellm_params:
      model: openai/bench
      api_base: {url}
      api_key: sk-x
      use_chat_completions_api: true
router_settings:
  disable_cooldowns: true
general_settings:
  master_key: {key}
"""


def program(name: str) -> str | None:
    """Where a peer's command is."""
    folders = [os.environ.get(FOLDER_VARIABLE, ""), os.environ.get("PATH", "")]
    return shutil.which(name, path=os.pathsep.join(filter(None, folders)))


@contextlib.contextmanager
def litellm(url: str) -> Iterator[Served]:
    """Its Responses bridge to chat completions."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "litellm.yaml")
        file.write_text(LITELLM.format(url=url, key=KEY))
        command = [_needed("litellm"), "--config", str(file), "--host", "127.0.0.1"]
        options = ["--port", str(port), "--num_workers", "1"]
        environ = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HOME": folder}
        with child([*command, *options], **environ) as process:
            until_answers(f"http://127.0.0.1:{port}/health/liveliness", process)
            yield Served("LiteLLM", f"http://127.0.0.1:{port}/v1", process.pid)


@contextlib.contextmanager
def agentic_api(url: str) -> Iterator[Served]:
    """It speaks Responses to the model server."""
    port = free_port()
    base = url.removesuffix("/v1")
    with tempfile.TemporaryDirectory() as folder:
        command = [_needed("agentic-server"), "--llm-api-base", base, "--openai-api-key", "sk-x"]
        options = ["--gateway-host", "127.0.0.1", "--gateway-port", str(port)]
        database = ["--skip-llm-ready-check", "--db-url", f"sqlite://{folder}/agentic.db"]
        with child([*command, *options, *database], HOME=folder) as process:
            until_answers(f"http://127.0.0.1:{port}/health", process)
            yield Served("agentic-api", f"http://127.0.0.1:{port}/v1", process.pid)


@contextlib.contextmanager
def codex_relay(url: str) -> Iterator[Served]:
    """It speaks chat completions to the model server, and SSE only to the client."""
    port = free_port()
    command = [_needed("codex-relay"), "--port", str(port), "--upstream", url, "--api-key", "sk-x"]
    with tempfile.TemporaryDirectory() as folder, child(command, HOME=folder) as process:
        until_answers(f"http://127.0.0.1:{port}/v1/models", process)
        yield Served("codex-relay", f"http://127.0.0.1:{port}/v1", process.pid)


def _needed(name: str) -> str:
    found = program(name)
    assert found is not None, f"{name} is not installed"
    return found


@dataclass(frozen=True)
class Peer:
    """A gateway to compare with.

    Attributes:
        command: that must be installed.
        serve: starts it in front of a model server.
        dialect: the one that it speaks to the model server.
        transports: that it offers to clients.
    """

    command: str
    serve: Callable[[str], contextlib.AbstractContextManager[Served]]
    dialect: str
    transports: tuple[str, ...] = ("sse", "websocket")


PEERS = {
    "LiteLLM": Peer("litellm", litellm, "chat"),
    "agentic-api": Peer("agentic-server", agentic_api, "responses"),
    "codex-relay": Peer("codex-relay", codex_relay, "chat", ("sse",)),
}


def installed() -> dict[str, Peer]:
    """The peers that can be started here."""
    return {name: peer for name, peer in PEERS.items() if program(peer.command)}


if __name__ == "__main__":
    sys.stdout.write(" ".join(installed()) + "\n")
