"""A gateway with keys in this process, and one request to it."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from gateway.app import Gateway
from gateway.config import AccessConfig, Config, ServerConfig, UpstreamConfig
from tests.scripted import ScriptedUpstream
from tests.server.clients import JSON

CREATE: JSON = {"model": "scripted", "input": "hi"}


@contextlib.asynccontextmanager
async def guarded(
    upstream: ScriptedUpstream, file: Path | None = None, **access: Any
) -> AsyncIterator[Gateway]:
    config = Config(
        server=ServerConfig(port=0, shutdown_seconds=0.5),
        upstream=UpstreamConfig(url=upstream.url, api="chat"),
        access=AccessConfig(keys_file=str(file or ""), **access),
    )
    async with Gateway(config) as gateway:
        yield gateway


async def call(
    gateway: Gateway,
    key: str = "",
    *,
    method: str = "POST",
    path: str = "/v1/responses",
    **more: Any,
) -> tuple[int, JSON, dict[str, str]]:
    """(status, body, headers) of one request."""
    headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **more.pop("headers", {})}
    body = {"json": CREATE, **more} if method == "POST" else more
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{gateway.url}{path}", headers=headers, **body) as answer,
    ):
        found = await answer.json() if answer.content_type == "application/json" else {}
        return answer.status, found, dict(answer.headers)


def edit(file: Path, old: str, new: str) -> None:
    """Change the file, and let nobody's clock hide that."""
    before = file.stat()
    file.write_text(file.read_text().replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))
