"""`responses-gateway demo`: one turn with apply_patch over WebSocket, to be looked at."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from gateway.agent import samples
from gateway.agent.session import Agent, Outcome, Socket, Unreachable
from gateway.app import Gateway
from gateway.codex.setup import v1
from gateway.commands.options import DEFAULT_URL, EXIT_USAGE, key_option, read_key
from gateway.config import Config, ServerConfig, StoreConfig, UpstreamConfig
from gateway.grammar.load import load_grammar
from gateway.upstream.client import UpstreamClient
from gateway.upstream.local import LocalModel, LocalModelError
from gateway.upstream.probe import discover
from gateway.wire.json import JSON, dumps_str

# Two turns of a small model on a busy machine.
DEMO_SECONDS = 300.0
OUTPUT = "Success. Updated the following files:\nA hello.txt\n"


class DemoError(Exception):
    """It cannot be shown. The message is one sentence that says what to do."""


@click.command()
@click.option(
    "--url", default="", metavar="URL", help=f"Where the gateway is.  [{DEFAULT_URL}, or its own]"
)
@key_option
@click.option(
    "--upstream", default="", metavar="URL", help="Start a gateway for this model server."
)
@click.option("--model", default="", metavar="NAME", help="The model to ask.  [the first one]")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="A folder for events.jsonl and patch.txt. Without it no file is written.",
)
def demo(url: str, key_env: str, upstream: str, model: str, out: Path | None) -> None:
    """Show one turn with apply_patch over WebSocket, event by event.

    The running gateway is used; where none runs one is started for as long as it takes, before the
    model server of this machine or else before the small embedded model. The patch is shown and
    judged by its grammar; it is not applied. A · stands between two pieces as they arrived.
    The exit code is 1 when the model did not call.
    """
    console = Console(highlight=False, soft_wrap=True)
    try:
        called = asyncio.run(_run(console, url, read_key(key_env), upstream, model, out))
    except (DemoError, LocalModelError) as error:
        click.echo(f"responses-gateway: {error}", err=True)
        sys.exit(EXIT_USAGE)
    sys.exit(0 if called else 1)


async def _run(
    console: Console, url: str, key: str, upstream: str, model: str, out: Path | None
) -> bool:
    async with (
        _gateway(console, url, key, upstream) as base,
        Agent(base, key, seconds=DEMO_SECONDS) as agent,
    ):
        try:
            name = model or await _first_model(agent)
            async with await agent.connect() as socket:
                return await _show(console, socket, name, out)
        except (Unreachable, ConnectionError, TimeoutError) as error:
            raise DemoError(
                f"The gateway at {base} broke off ({error}): responses-gateway doctor tells why."
            ) from None


@asynccontextmanager
async def _gateway(console: Console, url: str, key: str, upstream: str) -> AsyncIterator[str]:
    """The URL of the running gateway, or of one that is started here."""
    base = v1(url or DEFAULT_URL)
    if not upstream:
        async with Agent(base, key, seconds=1.0) as agent:
            try:
                page = await agent.get(f"{agent.root}/healthz")
                runs = isinstance(page.body, dict) and page.body.get("status") == "ok"
            except Unreachable:
                runs = False
        if runs:
            console.print(Text(f"gateway   {base}"))
            yield base
            return
        if url:
            raise DemoError(f"No gateway answers at {base}: start it, or leave --url out.")
        upstream = await _discovered()
    if upstream:
        async with _started(console, upstream) as started:
            yield started
        return
    async with LocalModel() as local, _started(console, local.url) as started:
        yield started


@asynccontextmanager
async def _started(console: Console, upstream: str) -> AsyncIterator[str]:
    config = Config(
        server=ServerConfig(port=0, shutdown_seconds=1.0),
        upstream=UpstreamConfig(url=upstream.rstrip("/")),
        store=StoreConfig(url="memory"),
    )
    async with Gateway(config) as gateway:
        console.print(Text(f"gateway   {gateway.url}/v1, started for this, before {upstream}"))
        yield f"{gateway.url}/v1"


async def _discovered() -> str:
    async with UpstreamClient("") as client:
        found = await discover(client)
    return found[0].url if found else ""


async def _first_model(agent: Agent) -> str:
    page = await agent.get(f"{agent.url}/models")
    data = page.body.get("data") if isinstance(page.body, dict) else None
    if page.status in (401, 403):
        raise DemoError("The gateway wants a key: name its variable with --key-env NAME.")
    if not data:
        raise DemoError("The gateway lists no models: name one with --model.")
    return str(data[0]["id"])


async def _show(console: Console, socket: Socket, model: str, out: Path | None) -> bool:
    """The two turns. Returns whether the model has called."""
    request = samples.patch(model)
    console.print(
        Text(f"model     {model}\nasked     {request['input'][-1]['content'][0]['text']}\n")
    )
    first = await _follow(console, socket, request)
    calls = [item for item in first.output if item["type"] == "custom_tool_call"]
    written = [first]
    if first.error:
        raise DemoError(f"The turn failed: {first.error.get('message')}")
    if calls and calls[0].get("status") != "incomplete":
        _judge(console, calls[0])
        second = await _follow(console, socket, _answered(model, first, calls[0]))
        written.append(second)
        if second.error:
            raise DemoError(f"The second turn failed: {second.error.get('message')}")
        console.print(Panel(Text(second.text or "(no text)"), title="answer"))
    else:
        console.print(Text("\nThe model did not call apply_patch; it said:", style="yellow"))
        console.print(Panel(Text(first.text or "(no text)")))
    if out is not None:
        _write(console, out, written, calls)
    return bool(calls)


async def _follow(console: Console, socket: Socket, request: JSON) -> Outcome:
    """One turn; each event is a line, and deltas stand as they come behind theirs."""
    outcome = Outcome()
    last = ""
    async for at, event in socket.events(request):
        outcome.take(at, event)
        kind = str(event.get("type"))
        if kind == last and "delta" in event:
            console.print(Text(f"·{event['delta']}"), end="")
            continue
        if last.endswith(".delta"):
            console.print()
        more = str(event["delta"]) if "delta" in event else _words(event)
        line = Text(f"{at:7.3f} s  {kind}", style="cyan")
        line.append(f"  {more}" if more else "", style="default")
        console.print(line, end="" if "delta" in event else "\n")
        last = kind
    return outcome


def _words(event: JSON) -> str:
    item = event.get("item") or {}
    name = f"{item.get('namespace', '')} {item.get('name', '')}".strip()
    return f"{item.get('type', '')} {name}".strip() or str(
        (event.get("error") or {}).get("message", "")
    )


def _judge(console: Console, call: JSON) -> None:
    checker = load_grammar("lark", samples.PATCH_GRAMMAR).checker()
    checker.feed(call["input"])
    verdict = checker.finish()
    console.print()
    console.print(
        Panel(Text(call["input"].rstrip("\n")), title=f"{call['name']} {call['call_id']}")
    )
    style = "green" if verdict.kind == "valid" else "bold red"
    reason = f": {verdict.reason}" if verdict.reason else ""
    console.print(Text(f"verdict   {verdict.kind}{reason}\n", style=style))


def _answered(model: str, first: Outcome, call: JSON) -> JSON:
    """What the client sends when it has run the tool; the turn goes on by the id of the first one."""
    output = {
        "type": "custom_tool_call_output",
        "call_id": call["call_id"],
        "output": OUTPUT,
    }
    request = samples.request(model, [output])
    return {**request, "tools": [samples.PATCH], "previous_response_id": first.response["id"]}


def _write(console: Console, out: Path, turns: list[Outcome], calls: list[JSON]) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        lines = [dumps_str(event) for turn in turns for _, event in turn.events]
        (out / "events.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        if calls:
            (out / "patch.txt").write_text(calls[0]["input"], encoding="utf-8")
    except OSError as error:
        raise DemoError(f"{out} cannot be written: {error.strerror}.") from None
    console.print(Text(f"wrote {out}", style="dim"))
