"""A gateway in this process, on a real socket of 127.0.0.1, with a few settings."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from gateway.app import Gateway
from gateway.config import Config, ServerConfig, UpstreamConfig


@contextlib.asynccontextmanager
async def serving(
    upstream: str, *, api: Any = "chat", profile: str = "default", **settings: Any
) -> AsyncIterator[str]:
    """Yield the gateway's URL, ending in /v1.

    Args:
        upstream: the model server's URL.
        api: the dialect spoken to it.
        profile: what is known of it.
        settings: further sections of the configuration.
    """
    # A short shutdown: a test that has failed in mid-stream must not wait for its stream.
    server = settings.pop("server", ServerConfig(port=0, shutdown_seconds=1.0))
    target = UpstreamConfig(url=upstream, api=api, profile=profile)
    async with Gateway(Config(server=server, upstream=target, **settings)) as gateway:
        yield f"{gateway.url}/v1"
