"""`responses-gateway doctor`: asks everything once, and says what is wrong, whose fault it is, what to do."""

import asyncio
import os
import sys

import click
import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.codex.setup import v1
from gateway.commands.options import key_option, read_key, url_option
from gateway.doctor.bench import TURN_SECONDS
from gateway.doctor.findings import EXIT_CODES, WHO, Finding, Report
from gateway.doctor.run import Tell, examine

_STYLES = {"ok": "green", "degraded": "yellow", "broken": "bold red", "skipped": "dim"}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@url_option
@key_option
@click.option("--model", default="", metavar="NAME", help="The model to ask.  [the first one]")
@click.option(
    "--upstream-key-env",
    default="",
    metavar="NAME",
    help="The variable with the model server's key, to ask it past the gateway.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0.1),
    default=TURN_SECONDS,
    show_default=True,
    help="How long one answer may take.",
)
def doctor(
    as_json: bool, url: str, key_env: str, model: str, upstream_key_env: str, seconds: float
) -> None:
    """Test the tool protocol through the running gateway and its model server.

    Each check ends as ok, degraded (it works, with something missing) or broken; where it helps the
    model server is asked past the gateway too, to tell whose fault it is. Nothing is changed and no
    tool is run. About fifteen short answers are asked for.

    The exit code is 0 when all is ok, 1 when something is degraded, 2 when something is broken.
    """
    console = Console(stderr=True)
    key, upstream_key = read_key(key_env), read_key(upstream_key_env)
    with console.status("…") as status:

        def tell(name: str, finding: Finding | None) -> None:
            if finding is None:
                status.update(f"{name} …")

        report = asyncio.run(_examine(v1(url), model, key, upstream_key, seconds, tell))
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(_as_json(report)), indent=2).decode())
    else:
        show(Console(), report)
    sys.exit(EXIT_CODES[report.verdict])


async def _examine(
    url: str, model: str, key: str, upstream_key: str, seconds: float, tell: Tell
) -> Report:
    return await examine(
        url,
        os.environ,
        model=model,
        key=key,
        upstream_key=upstream_key,
        seconds=seconds,
        tell=tell,
    )


def _as_json(report: Report) -> dict[str, object]:
    return {
        "verdict": report.verdict,
        "faults": report.faults,
        "summary": report.summary,
        **msgspec.to_builtins(report),
    }


def show(console: Console, report: Report) -> None:
    """The table, and the one sentence below it."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("check", "verdict", "what was seen"):
        table.add_column(column, overflow="fold")
    for finding in report.findings:
        seen = Text(finding.reason)
        if finding.fault:
            seen.append(f"\n{WHO[finding.fault]}", style="italic")
            seen.append(f": {finding.advice}" if finding.advice else "")
        verdict = Text(finding.verdict, style=_STYLES[finding.verdict])
        table.add_row(Text(finding.check), verdict, seen)
    console.print(table)
    console.print(Text(f"\n{report.summary}", style=_STYLES[report.verdict]))
