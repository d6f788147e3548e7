"""Through real proxies, set up as docs/operations.md says: nothing waits, nothing is cut."""

import asyncio
import io
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.peers.gateway_process import GatewayProcess
from tests.peers.service_manager import environment, free_port, program, tool
from tests.scripted import ScriptedUpstream
from tests.server.clients import stream

REPO = Path(__file__).resolve().parents[2]
NAME = "gateway.example.com"
PIECES = ["one ", "two ", "three ", "four"]
HELLO = {"model": "scripted", "input": "hi", "store": False}
SETTINGS = f'[access]\nhosts = ["{NAME}"]\n'


class SteppedUpstream:
    """A model server that says each piece only when it is told to."""

    def __init__(self) -> None:
        self.steps = asyncio.Semaphore(0)
        self.left = asyncio.Event()
        self.url = ""

    async def __aenter__(self) -> "SteppedUpstream":
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        try:
            for piece in PIECES:
                await self.steps.acquire()
                chunk = f'{{"choices":[{{"index":0,"delta":{{"content":"{piece}"}}}}]}}'
                await answer.write(f"data: {chunk}\n\n".encode())
            await answer.write(b'data: {"choices":[{"index":0,"finish_reason":"stop"}]}\n\n')
            await answer.write(b"data: [DONE]\n\n")
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        return answer


class _Here(AbstractResolver):
    """The proxy's name stands for this machine."""

    async def resolve(self, host: str, port: int = 0, family: int = 0) -> list[ResolveResult]:
        found = ResolveResult(
            hostname=host, host="127.0.0.1", port=port, family=2, proto=0, flags=0
        )
        return [found]

    async def close(self) -> None:
        """Nothing is held."""


def snippet(language: str) -> str:
    """The one block of that language in the page."""
    page = (REPO / "docs" / "operations.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return str(found)


def replaced(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def nginx(folder: Path, port: int, behind: str) -> list[str]:
    site = replaced(
        snippet("nginx"),
        ("listen 443 ssl", f"listen 127.0.0.1:{port} ssl"),
        ("/etc/ssl/gateway.example.com.pem", str(folder / "cert.pem")),
        ("/etc/ssl/gateway.example.com.key", str(folder / "key.pem")),
        ("127.0.0.1:8790", behind),
    )
    places = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{place}_temp_path {folder}/{place};\n" for place in places)
    (folder / "nginx.conf").write_text(
        f"daemon off; master_process off; pid {folder}/pid; error_log stderr notice;\n"
        f"events {{}}\nhttp {{\naccess_log off; gzip on;\n{temporary}{site}}}\n"
    )
    return [tool("nginx", "nginx-light"), "-p", str(folder), "-c", str(folder / "nginx.conf")]


def caddy(folder: Path, port: int, behind: str) -> list[str]:
    site = replaced(
        snippet("caddyfile"),
        (f"{NAME} {{", f"https://{NAME}:{port} {{\n\ttls {folder}/cert.pem {folder}/key.pem"),
        ("127.0.0.1:8790", behind),
    )
    (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n\tauto_https off\n}}\n{site}")
    return [tool("caddy", "caddy"), "run", "--config", str(folder / "Caddyfile")]


PROXIES = {
    "nginx": (nginx, "[notice] "),
    "caddy": (caddy, "serving initial configuration"),
}


def certificate(folder: Path) -> ssl.SSLContext:
    """Make one for the proxy; what a client must trust."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, NAME)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return ssl.create_default_context(cafile=str(folder / "cert.pem"))


@asynccontextmanager
async def through(
    proxy: str, folder: Path, upstream: str
) -> AsyncIterator[tuple[aiohttp.ClientSession, str]]:
    """A session, and the URL without /v1 by which it reaches a gateway behind that proxy."""
    trust = certificate(folder)
    home = folder / "gateway"
    home.mkdir()
    (home / "gateway.toml").write_text(SETTINGS)
    arguments = (
        "--upstream",
        upstream,
        "--config",
        str(home / "gateway.toml"),
        "--store",
        "memory",
    )
    make, ready = PROXIES[proxy]
    port = free_port()
    async with GatewayProcess(home, *arguments, "--upstream-api", "chat") as gateway:
        command = make(folder, port, gateway.url.split("/")[2])
        env = environment(folder, XDG_DATA_HOME=str(folder), XDG_CONFIG_HOME=str(folder))
        async with program(command, env) as (_, tail):
            await tail.until(ready)
            connector = aiohttp.TCPConnector(ssl=trust, resolver=_Here())
            async with aiohttp.ClientSession(connector=connector) as session:
                yield session, f"https://{NAME}:{port}"


@pytest.mark.parametrize("transport", ["sse", "ws"])
@pytest.mark.parametrize("proxy", PROXIES)
async def test_each_delta_arrives_before_the_next_is_written(
    tmp_path: Path, proxy: str, transport: str
) -> None:
    async with (
        SteppedUpstream() as upstream,
        through(proxy, tmp_path, upstream.url) as (session, url),
        aclosing(stream(session, transport, url, HELLO)) as events,
    ):
        upstream.steps.release()
        arrived = []
        async for event in events:
            if event["type"] == "response.output_text.delta":
                arrived.append(event["delta"])
                upstream.steps.release()  # only now does the model say more
        assert arrived == PIECES
        assert event["type"] == "response.completed"


@pytest.mark.parametrize("transport", ["sse", "ws"])
@pytest.mark.parametrize("proxy", PROXIES)
async def test_a_client_that_leaves_stops_the_model_server(
    tmp_path: Path, proxy: str, transport: str
) -> None:
    async with (
        SteppedUpstream() as upstream,
        through(proxy, tmp_path, upstream.url) as (session, url),
    ):
        upstream.steps.release()
        async with aclosing(stream(session, transport, url, HELLO)) as events:
            async for event in events:
                if event["type"] == "response.output_text.delta":
                    break
        await upstream.left.wait()


@pytest.mark.parametrize("proxy", PROXIES)
async def test_requests_of_many_megabytes_pass(tmp_path: Path, proxy: str) -> None:
    request = {**HELLO, "input": "a long file " * 700_000}  # 8 MB
    body = io.BytesIO(json.dumps(request).encode())
    headers = {"Content-Type": "application/json"}
    async with (
        ScriptedUpstream(["hello", "hello"]) as upstream,
        through(proxy, tmp_path, upstream.url) as (session, url),
    ):
        async with session.post(f"{url}/v1/responses", data=body, headers=headers) as answer:
            assert (await answer.json())["status"] == "completed"
        events = [event async for event in stream(session, "ws", url, request)]
        assert events[-1]["type"] == "response.completed"
        assert [received.texts for received in upstream.requests] == [[request["input"]]] * 2
