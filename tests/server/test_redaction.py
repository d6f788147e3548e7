"""Secrets are planted wherever one can stand, and searched in everything that leaves.

A gateway is started as a process, at the level of debug lines, with a key of a client, one of its
model server and passwords in URLs. It is asked well and badly, over every transport, by a model
server that quotes what it was sent. Nothing that anybody can read afterwards has any of them.
"""

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from click.testing import CliRunner

from gateway.cli import main
from gateway.server.keyfile import add_key, hash_key
from gateway.server.redact import HIDDEN, redact, redactor
from tests.server.test_cli import environment

UPSTREAM_KEY = "plainUpstreamKey-5f1c"
URL_PASSWORD = "urlPassword-77aa"
WRONG_KEY = "wrongClientKey-90dd"
QUERY_KEY = "queryKey-31be"


@asynccontextmanager
async def quoting_upstream() -> AsyncIterator[str]:
    """A model server that refuses everything and quotes the headers of what it refuses."""

    async def refuse(request: web.Request) -> web.Response:
        words = f"Incorrect API key provided: {request.headers.get('Authorization')}"
        return web.json_response({"error": {"message": words, "code": "bad_key"}}, status=401)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", refuse)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"127.0.0.1:{runner.addresses[0][1]}/v1"
    await runner.cleanup()


async def everything_said(url: str, key: str) -> str:
    """All bodies and headers that a client gets for good, bad and odd requests."""
    said: list[str] = []
    create = {"model": "m", "input": "hi"}
    good = {"Authorization": f"Bearer {key}"}
    asked: list[tuple[str, str, dict[str, str], dict[str, Any]]] = [
        ("POST", "/v1/responses", good, {"json": create}),
        ("POST", "/v1/responses", good, {"json": {**create, "stream": True}}),
        ("POST", "/v1/responses", good, {"data": b"{"}),
        ("POST", "/v1/responses", {}, {"json": create}),
        ("POST", "/v1/responses", {"Authorization": f"Bearer {WRONG_KEY}"}, {"json": create}),
        ("POST", "/v1/responses", {"Authorization": WRONG_KEY}, {"json": create}),
        ("GET", f"/v1/no/such?api_key={QUERY_KEY}", good, {}),
        ("GET", f"/v1/models?key={QUERY_KEY}", {}, {}),
        ("GET", "/v1/models", good, {}),
        ("GET", "/v1/responses/resp_1", {**good, "Origin": f"http://{QUERY_KEY}@evil"}, {}),
        ("GET", "/readyz", good, {}),
        ("GET", "/metrics", good, {}),
    ]
    async with aiohttp.ClientSession() as session:
        for method, path, headers, body in asked:
            async with session.request(method, url + path, headers=headers, **body) as answer:
                said += [str(answer.status), str(answer.headers), await answer.text()]
        async with session.ws_connect(f"{url}/v1/responses", headers=good) as socket:
            await socket.send_json({"type": "response.create", **create})
            said.append(await socket.receive_str())
    # The HTTP parser shows its peer the line at fault, and nobody else: only the log counts here.
    for line in (f"GET /v1/models HTTP/1.1\r\nAuthorization Bearer {key}", f"Bearer {key}"):
        assert "400 Bad Request" in await raw(url, f"{line}\r\n\r\n")
    return "\n".join(said)


async def raw(url: str, text: str) -> str:
    """What a request gets that is not even HTTP."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(text.encode())
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode()


@pytest.mark.parametrize("log_format", ["human", "json"])
async def test_no_secret_leaves_by_any_way(tmp_path: Path, log_format: str) -> None:
    file = tmp_path / "keys.toml"
    key = add_key(file, "alice")
    (tmp_path / "upstream").write_text(UPSTREAM_KEY)
    async with quoting_upstream() as place:
        settings = {
            "RESPONSES_GATEWAY_KEYS": str(file),
            "RESPONSES_GATEWAY_UPSTREAM": f"http://user:{URL_PASSWORD}@{place}",
            "RESPONSES_GATEWAY_UPSTREAM_API_KEY_FILE": str(tmp_path / "upstream"),
            "RESPONSES_GATEWAY_LOG_LEVEL": "debug",
            "RESPONSES_GATEWAY_LOG_FORMAT": log_format,
            "RESPONSES_GATEWAY_STORE": "memory",
            "PYTHONASYNCIODEBUG": "1",
        }
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gateway", "serve", "--port", "0"),
            env={**environment(), **settings},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        first = (await process.stdout.readline()).decode()
        url = re.findall(r"http://[\d.]+:\d+", first)[0]
        said = await everything_said(url, key)
        process.send_signal(signal.SIGTERM)
        stdout, stderr = await process.communicate()
    logged = stderr.decode()
    everything = first + stdout.decode() + logged + said
    # It has really been said, and without the secret.
    assert "Incorrect API key provided: Bearer [hidden]" in said
    assert logged.count('"refused"' if log_format == "json" else " refused ") > 3
    for secret in (key, hash_key(key), UPSTREAM_KEY, URL_PASSWORD, WRONG_KEY):
        assert secret not in everything, secret
    # What a client puts into a path's query is its own; it gets no place in the log.
    assert QUERY_KEY not in logged
    assert process.returncode == 0
    if log_format == "json":
        assert all(json.loads(line) for line in logged.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ["--upstream", f"http://user:{URL_PASSWORD}@127.0.0.1:99999/v1"],
        ["--upstream", f"user:{URL_PASSWORD}@127.0.0.1/v1"],
        ["--upstream", f"http://[user:{URL_PASSWORD}@127.0.0.1/v1"],
        ["--store", f"postgres://user:{URL_PASSWORD}@127.0.0.1/db", "--upstream", "http://h/v1"],
        [
            "--store",
            f"postgresql://user:{URL_PASSWORD}@127.0.0.1:1/db",
            "--upstream",
            "http://h/v1",
        ],
    ],
)
def test_a_mistake_in_a_url_does_not_print_its_password(arguments: list[str]) -> None:
    unset = {name: None for name in os.environ if name.startswith("RESPONSES_GATEWAY_")}
    result = CliRunner().invoke(main, ["serve", "--port", "0", *arguments], env=unset)
    assert result.exit_code == 2, result.output
    assert URL_PASSWORD not in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("Authorization: Bearer abcdef123", "Authorization: Bearer [hidden]"),
        ("authorization: basic QWxhZGRpbg==", "authorization: basic [hidden]"),
        ("http://user:pass@host/v1", "http://[hidden]@host/v1"),
        ("GET /x?key=abc&a=1", "GET /x?key=[hidden]&a=1"),
        ("it is sk-proj-abc123DEF", "it is [hidden]"),
        ("it is rgw_abc123DEF", "it is [hidden]"),
        ("no bearer of news, no key", "no bearer of news, no key"),
        ("mail a@b.c, task-sk-1", "mail a@b.c, task-sk-1"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, hidden: str) -> None:
    assert redact(text) == hidden


def test_a_known_secret_is_hidden_and_a_short_one_is_no_secret() -> None:
    clean = redactor("hunter22", "", "a", "hunter22-longer")
    assert clean("x hunter22-longer hunter22 a") == f"x {HIDDEN} {HIDDEN} a"
