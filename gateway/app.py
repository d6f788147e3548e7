"""From settings to a server that listens: builds the application, binds it, and takes it down."""

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Self

from aiohttp import web

from gateway.config import Config, ConfigError, StoreConfig
from gateway.server.access import Access, check_exposure
from gateway.server.background import Background
from gateway.server.credentials import tls_context, upstream_key
from gateway.server.facts import TurnFacts, log_turn
from gateway.server.keys import (
    ACCESS,
    BACKGROUND,
    CONNECTIONS,
    METRICS,
    RELAY,
    SETTINGS,
    STORE,
    TARGETS,
)
from gateway.server.metered_store import MeteredStore
from gateway.server.metrics import Metrics
from gateway.server.notify import Describe, State
from gateway.server.onlookers import add_watchers, close_watchers
from gateway.server.relay import Relay
from gateway.server.routes import add_routes, api_errors, guard, name_request, open_now
from gateway.server.target import Target, Targets
from gateway.server.watching import TurnCount
from gateway.server.websocket import leave
from gateway.store.choice import choose_store
from gateway.store.protocol import Store, StoreError
from gateway.upstream.client import UpstreamClient
from gateway.upstream.profiles import load_profile

# Connections that wait to be accepted while a turn is encoded: a burst of sub-agents.
BACKLOG = 1024
# At shutdown: a request on a connection that was just accepted is on its way, and is still answered.
ARRIVING_SECONDS = 0.3


def build_app(config: Config, environ: Mapping[str, str] = os.environ) -> web.Application:
    """The aiohttp application for these settings.

    Raises:
        ConfigError: a setting that only shows here to be unusable.
    """
    check_exposure(config)
    _check_profile(config)
    upstream = config.upstream
    client = UpstreamClient(
        upstream.url,
        upstream_key(upstream, environ),
        connect_timeout=upstream.connect_timeout,
        idle_timeout=upstream.idle_timeout,
    )
    app = web.Application(
        # Bounds what `read` takes in; `body.decode` bounds what it may become.
        client_max_size=config.server.max_body_bytes,
        middlewares=[name_request, api_errors, guard],
    )
    app[SETTINGS] = config.server
    metrics = app[METRICS] = Metrics()
    app[ACCESS] = Access(config, metrics.count_refusal)
    app[STORE] = MeteredStore(open_store(config.store, environ), metrics)
    app[TARGETS] = Targets(config, client)
    app[CONNECTIONS] = set()
    app[RELAY] = Relay(
        app[TARGETS],
        app[STORE],
        heartbeat_seconds=config.server.heartbeat_seconds,
        created_after_seconds=config.server.created_after_seconds,
        admit=app[ACCESS].turn,
        report=_report_to(metrics),
    )
    app[BACKGROUND] = Background(app[RELAY], app[STORE])
    add_watchers(app, config, upstream_key(upstream, environ))
    add_routes(app)
    app.on_startup.append(_open)
    app.cleanup_ctx.append(_pulse)
    app.on_cleanup.append(_close)
    return app


def open_store(config: StoreConfig, environ: Mapping[str, str] = os.environ) -> Store:
    """The store that the settings name; nothing is touched before its `open`.

    Raises:
        ConfigError: none has that name.
    """
    try:
        return choose_store(config, environ)
    except StoreError as error:
        raise ConfigError(error.reason) from None


async def check_store(config: StoreConfig) -> None:
    """Whether the store can be used: known before anything listens, and once for all workers.

    Raises:
        ConfigError: in words that say what to do.
    """
    store = open_store(config)
    try:
        await store.open()
        await store.sealing_key()
    except StoreError as error:
        raise ConfigError(error.reason) from None
    finally:
        await store.close()


def bind(config: Config) -> socket.socket:
    """The listening socket.

    Raises:
        ConfigError: in words that say what to do.
    """
    host, port = config.server.host, config.server.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind((host, port))
            bound.listen(BACKLOG)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        raise ConfigError(_why_not_bound(host, port, error)) from None
    bound.setblocking(False)
    return bound


class Gateway:
    """A gateway that listens while the context is open.

        async with Gateway(config) as gateway: … gateway.url …

    Args:
        config: all settings.
        bound: listening sockets to use; one is bound when there are none.
    """

    def __init__(self, config: Config, *bound: socket.socket) -> None:
        for given in bound:
            if given.family != socket.AF_UNIX:
                check_exposure(config, given.getsockname()[0])
        self.config = config
        self.app = build_app(config)
        self._tls = tls_context(config.server)
        self._sockets = list(bound)
        self._runner = web.AppRunner(
            self.app,
            handler_cancellation=True,  # a client that has gone stops its upstream
            auto_decompress=False,  # `server/body.py` does it, within a bound
            access_log=None,  # the relay logs one line a turn
            shutdown_timeout=config.server.shutdown_seconds,
        )

    async def __aenter__(self) -> Self:
        if not self._sockets:
            self._sockets = [bind(self.config)]
        await self._runner.setup()
        for bound in self._sockets:
            await web.SockSite(self._runner, bound, backlog=BACKLOG, ssl_context=self._tls).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # aiohttp's own shutdown reads nothing any more, and a socket that is draining still answers.
        for site in list(self._runner.sites):
            await site.stop()
        await asyncio.sleep(0)  # what has just been accepted is a connection only then
        if self._runner.server is not None and self._runner.server.connections:
            await asyncio.sleep(ARRIVING_SECONDS)
        await leave(self.app[CONNECTIONS], self.config.server.shutdown_seconds)
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        """Where agents connect, without /v1."""
        first = next((it for it in self._sockets if it.family != socket.AF_UNIX), self._sockets[0])
        return url_of(first, "https" if self._tls else "http")

    async def target(self) -> Target:
        """The model server as it is known now."""
        return await self.app[TARGETS].current()

    def describe(self) -> Describe:
        """What says how it goes, whenever it is called; turns are counted from now on."""
        count = TurnCount()
        self.app[RELAY].watchers.add(count.begin)

        def state() -> State:
            sockets, _ = open_now(self.app[CONNECTIONS])
            target = self.app[TARGETS].known
            upstream = f"upstream {target.host}" if target is not None else ""
            if target is not None and not target.found.reachable:
                upstream += " does not answer"
            return State(upstream, count.running, sockets)

        return state


def url_of(bound: socket.socket, scheme: str = "http") -> str:
    """The URL of a listening socket; of one in the file system, its path."""
    if bound.family == socket.AF_UNIX:
        return f"unix:{bound.getsockname()}"
    host, port = bound.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


async def _open(app: web.Application) -> None:
    try:
        await app[STORE].open()
    except StoreError as error:
        raise ConfigError(error.reason) from None


def _report_to(metrics: Metrics) -> Callable[[TurnFacts], None]:
    def report(facts: TurnFacts) -> None:
        metrics.count_turn(facts)
        log_turn(facts)

    return report


async def _pulse(app: web.Application) -> AsyncIterator[None]:
    """The loop's lag is measured as long as the application lives."""
    connections = app[CONNECTIONS]
    task = asyncio.create_task(app[METRICS].pulse(lambda: open_now(connections)))
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _close(app: web.Application) -> None:
    await app[BACKGROUND].close(app[SETTINGS].shutdown_seconds)
    await app[RELAY].close()
    await close_watchers(app)


def _check_profile(config: Config) -> None:
    """A wrong name or key is an error at the start, not in the first turn."""
    name = config.upstream.profile
    try:
        load_profile("default" if name == "auto" else name, config.profile)
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _why_not_bound(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use: end what listens there, or choose another --port."
    if error.errno == errno.EACCES:
        return f"Port {port} needs more rights than this user has: choose a --port above 1023."
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"This machine has no address {host!r}: choose another --host."
    return f"Cannot listen on {host}:{port}: {error.strerror or error}."
