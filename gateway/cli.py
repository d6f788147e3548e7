"""The command line: `responses-gateway serve`, and a group for the commands that come beside it.

What cannot be done is said in one sentence that tells what to do instead; the exit code is 2.
"""

import asyncio
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
import msgspec

from gateway import __version__
from gateway.app import Gateway, bind, build_app, check_store
from gateway.codex.catalog import catalog
from gateway.codex.setup import DEFAULT_NAME, Wanted, provider_lines, v1
from gateway.commands.lazy import LazyGroup
from gateway.commands.options import DEFAULT_URL, EXIT_USAGE
from gateway.config import CONFIG_VARIABLE, Config, ConfigError, load
from gateway.server.collector import settle
from gateway.server.credentials import upstream_key
from gateway.server.inherited import inherited_sockets
from gateway.server.keyfile import add_key, expiry
from gateway.server.logs import set_up
from gateway.server.metrics import share_between_workers
from gateway.server.notify import Notifier, State, notifier_of
from gateway.server.redact import redactor
from gateway.server.target import Target
from gateway.server.workers import run_workers
from gateway.upstream.client import UpstreamClient
from gateway.upstream.local import LocalModel, LocalModelError, install_hint
from gateway.upstream.probe import USUAL_PORTS, discover

T = TypeVar("T")

_NAME = "responses-gateway"
# The variable that the shown configuration takes a key from; not one of the gateway's own settings.
_KEY_VARIABLE = "GATEWAY_KEY"

log = logging.getLogger(__name__)


class _Commands(LazyGroup):
    lazy = {  # noqa: RUF012
        "codex": "gateway.commands.codex:codex",
        "demo": "gateway.commands.demo:demo",
        "doctor": "gateway.commands.doctor:doctor",
        "replay": "gateway.commands.replay:replay_files",
    }


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="responses-gateway")
def main() -> None:
    """The Responses API of coding agents in front of model servers that know only function tools."""


@main.command()
@click.option("--host", help="Address to listen on.  [127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on, 0 for any free one.  [8790]")
@click.option("--upstream", metavar="URL", help="The model server's base URL, with its /v1.")
@click.option(
    "--upstream-api",
    type=click.Choice(["auto", "chat", "responses"]),
    help="The API that the model server is asked by.  [auto]",
)
@click.option("--profile", metavar="NAME", help="The model server's habits.  [auto]")
@click.option(
    "--store",
    metavar="URL",
    help="Where responses are kept: memory, sqlite, sqlite:PATH or postgresql://…  "
    "[sqlite, in ~/.local/state/responses-gateway]",
)
@click.option("--workers", type=int, help="Processes that share the port.  [1]")
@click.option("--keys", metavar="FILE", help="API keys, as 'key new' writes them.  [none]")
@click.option(
    "--insecure", is_flag=True, default=None, help="Listen beyond this machine without TLS."
)
@click.option("--record", metavar="DIR", help="Write each turn into a file there, without secrets.")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    envvar=CONFIG_VARIABLE,
    help="A TOML file with any of these settings and more.",
)
def serve(file: Path | None, **flags: Any) -> None:
    """Start the gateway."""
    with ExitStack() as stack:
        notifier = stack.enter_context(notifier_of(os.environ))
        try:
            config = _with_store(load(file, os.environ, flags))
            set_up(config.log, redactor(*_secrets(config)))
            if config.upstream.url:
                build_app(config)  # its errors belong to the start, before any worker is there
            _run(lambda: check_store(config.store))
            sockets = inherited_sockets(os.environ) or [bind(config)]
            for bound in sockets:
                stack.enter_context(bound)
            if config.server.workers == 1:
                _run(lambda: _serve(config, sockets, notifier))
            else:
                _serve_by_workers(config, sockets, notifier)
        except (ConfigError, LocalModelError) as error:
            notifier.failed(str(error))
            click.echo(f"responses-gateway: {error}", err=True)
            sys.exit(EXIT_USAGE)


@main.group()
def key() -> None:
    """API keys of those who may use the gateway."""


@key.command()
@click.argument("name")
@click.option("--keys", metavar="FILE", help="The file that gets its hash.  [access.keys_file]")
@click.option("--expires", metavar="DATE", help="When it ends: 90d, or a date like 2027-01-31.")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    envvar=CONFIG_VARIABLE,
    help="The gateway's TOML file, which may name the keys file.",
)
def new(name: str, keys: str | None, expires: str | None, file: Path | None) -> None:
    """Make a key for NAME, show it this once, and add its hash to the file.

    A gateway that runs takes it within a second. To end a key, take its section out of the file.
    """
    try:
        path = load(file, os.environ, {"keys": keys}).access.keys_file
        if not path:
            raise ConfigError("Which file? Name it with --keys FILE, or set access.keys_file.")
        until = expiry(expires, datetime.now(UTC).date()) if expires else None
        click.echo(add_key(Path(path), name, until))
    except ConfigError as error:
        click.echo(f"responses-gateway: {error}", err=True)
        sys.exit(EXIT_USAGE)
    click.echo(f"It is shown only now. {path} has its hash.", err=True)


def _serve_by_workers(config: Config, sockets: list[socket.socket], notifier: Notifier) -> None:
    if not config.upstream.url:
        url = _run(_discovered)
        if url is None:
            raise ConfigError(_no_upstream())
        config = _with_upstream(config, url)
    if config.store.url == "memory":
        log.warning("store=memory is per worker: previous_response_id over HTTP may not be found")
    with tempfile.TemporaryDirectory(prefix="responses-gateway-metrics-") as folder:
        share_between_workers(Path(folder))
        failed = run_workers(
            config.server.workers,
            lambda index, line: _run(lambda: _serve(config, sockets, line, quiet=index > 0)),
            notifier,
        )
    if failed:
        sys.exit(1)


async def _serve(
    config: Config, sockets: list[socket.socket], notifier: Notifier, *, quiet: bool = False
) -> None:
    """Run until SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with AsyncExitStack() as stack:
        note = ""
        if not config.upstream.url:
            url = await _discovered()
            note = "found on this machine"
            if url is None:
                url, note = await _start_local(stack), "embedded: a tiny model, for trying out only"
            config = _with_upstream(config, url)
        gateway = Gateway(config, *sockets)
        describe = gateway.describe() if notifier.is_heard else State
        await stack.enter_async_context(notifier.telling(describe))
        await stack.enter_async_context(gateway)
        for name in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(name, stop.set)
        if not quiet:
            click.secho(f"{_NAME} {__version__} listens on {gateway.url}/v1", bold=True)
        target = await gateway.target()  # it has been asked; whether it answers is another matter
        if not quiet:
            _show(config, gateway.url, target, note)
        notifier.ready(describe())
        settle()
        await stop.wait()
        notifier.stopping(describe())
        loop.remove_signal_handler(signal.SIGINT)  # a second Ctrl-C ends at once


async def _discovered() -> str | None:
    async with UpstreamClient("") as client:
        found = await discover(client)
    return found[0].url if found else None


async def _start_local(stack: AsyncExitStack) -> str:
    if install_hint() is not None:
        raise ConfigError(_no_upstream())
    return (await stack.enter_async_context(LocalModel())).url


def _no_upstream() -> str:
    ports = ", ".join(map(str, USUAL_PORTS))
    return (
        f"No model server answers on this machine (ports {ports}): start one, or name it with "
        "--upstream http://HOST:PORT/v1."
    )


def _with_upstream(config: Config, url: str) -> Config:
    upstream = msgspec.structs.replace(config.upstream, url=url)
    return msgspec.structs.replace(config, upstream=upstream)


def _with_store(config: Config) -> Config:
    """What is served is kept, unless somebody has said otherwise."""
    store = msgspec.structs.replace(config.store, url=config.store.url or "sqlite")
    return msgspec.structs.replace(config, store=store)


def _show(config: Config, url: str, target: Target, note: str) -> None:
    """What it talks to, and what Codex has to be told."""
    found = target.found
    how = f"{target.dialect.path}, profile {target.profile.name}: {found.how}"
    if not found.reachable:
        how += "; it is asked again with each turn"
    click.echo(f"upstream  {_without_password(config.upstream.url)} ({how})")
    if note:
        click.echo(f"          {note}")
    click.echo(f"models    {', '.join(target.models) or 'none listed'}")
    click.echo(f"status    {url}/status")
    key_env = _KEY_VARIABLE if config.access.keys_file else ""
    wanted = Wanted(
        url=v1(url), models=catalog(target.models, target.found.windows), key_env=key_env
    )
    click.secho("\nCodex 0.171 or newer, by hand, in ~/.codex/config.toml:\n", dim=True)
    click.echo(provider_lines(wanted))
    click.secho("Any Codex, as a profile beside what you have:\n", dim=True)
    where = "" if url == DEFAULT_URL else f" --url {url}"
    key = f" --key-env {key_env}" if key_env else ""
    click.echo(f"{_own_name()} codex --write{where}{key}\ncodex -p {DEFAULT_NAME}\n")


def _own_name() -> str:
    """How it can be called again: by its bare name only where the shell finds that."""
    called = Path(sys.argv[0])
    return str(called) if called.name == _NAME and shutil.which(_NAME) is None else _NAME


def _secrets(config: Config) -> list[str]:
    """What must stand in no line of the log, whoever quotes it."""
    passwords = [urlsplit(url).password or "" for url in (config.upstream.url, config.store.url)]
    return [upstream_key(config.upstream), *passwords]


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """On uvloop where that is installed: a third less CPU for each event."""
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
