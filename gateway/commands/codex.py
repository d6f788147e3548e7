"""`responses-gateway codex`: shows or writes what Codex needs, or takes it out again."""

import asyncio
import sys
from pathlib import Path

import click

from gateway.agent.session import Agent, Unreachable
from gateway.codex.catalog import catalog
from gateway.codex.home import Home, SetupError, codex_home
from gateway.codex.setup import DEFAULT_NAME, Wanted, render, v1
from gateway.commands.options import EXIT_USAGE, key_option, read_key, url_option
from gateway.wire.json import JSON


@click.command()
@click.option("--print", "act", flag_value="print", default="print", help="Show it.  [default]")
@click.option("--write", "act", flag_value="write", help="Write it into Codex's home.")
@click.option("--undo", "act", flag_value="undo", help="Take out again what --write has written.")
@url_option
@key_option
@click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    help="The model to use; again for more. Without it the gateway is asked.",
)
@click.option(
    "--name",
    default=DEFAULT_NAME,
    show_default=True,
    help="What provider and profile are called.",
)
@click.option("--default", is_flag=True, help="Make it Codex's default model and provider as well.")
def codex(
    act: str, url: str, key_env: str, models: tuple[str, ...], name: str, default: bool
) -> None:
    """What the Codex CLI needs to use this gateway.

    Three files in ~/.codex (or CODEX_HOME): config.toml gets a provider, NAME.config.toml is a
    profile that uses it, NAME-models.json is the model catalogue, which makes Codex declare
    apply_patch and tool_search. Comments, order and everything else stay as they are; a copy of the
    old config.toml is kept. Your default model stays what it is, unless you say --default.

    \b
    responses-gateway codex --write     set up
    codex -p gateway                    use it
    responses-gateway codex --undo      as if nothing had been
    """
    home = codex_home()
    try:
        if act == "undo":
            said = Home(home, _checked(name)).undo()
            click.echo("\n".join(said) or f"Nothing to undo in {home}.")
            return
        url = v1(url)
        entries = _entries(url, read_key(key_env), models)
        if default and not entries:
            raise SetupError(
                "--default needs a model: start the gateway, or name one with --model."
            )
        wanted = Wanted(
            url=url, models=entries, name=_checked(name), key_env=key_env, default=default
        )
        if act == "write":
            _write(home, wanted)
        else:
            _print(home, wanted)
    except SetupError as error:
        click.echo(f"responses-gateway: {error}", err=True)
        sys.exit(EXIT_USAGE)


def _write(home: Path, wanted: Wanted) -> None:
    said = Home(home, wanted.name).write(wanted)
    click.echo("\n".join(said) or f"Nothing to do: {home} has all of it already.")
    click.echo(f"Now run: codex{'' if wanted.default else f' -p {wanted.name}'}")


def _print(home: Path, wanted: Wanted) -> None:
    for name, text in render(home, wanted).items():
        click.echo(f"# ---- {home / name}\n{text}")


def _entries(url: str, key: str, models: tuple[str, ...]) -> list[JSON]:
    """The catalogue that the gateway serves, cut to the named models where some are named."""
    served = asyncio.run(_served(url, key))
    if not models:
        return served
    known = {entry["slug"]: entry for entry in served}
    made = {entry["slug"]: entry for entry in catalog(list(models), {})}
    return [{**known.get(name, made[name]), "priority": made[name]["priority"]} for name in made]


async def _served(url: str, key: str) -> list[JSON]:
    async with Agent(url, key, seconds=1.0) as agent:
        try:
            page = await agent.get(f"{url}/models")
        except Unreachable as error:
            _warn(f"no gateway answers at {url} ({error})")
            return []
    if page.status in (401, 403):
        raise SetupError(
            f"The gateway at {url} wants a key: name its variable with --key-env NAME."
        )
    entries = page.body.get("models") if isinstance(page.body, dict) else None
    if not isinstance(entries, list):
        _warn(f"what answers at {url} is not this gateway (HTTP {page.status})")
        return []
    if not entries:
        _warn(f"the gateway at {url} lists no models")
    return entries


def _warn(what: str) -> None:
    click.echo(
        f"responses-gateway: {what}, so its models are not known. Codex 0.171 asks for them itself "
        "when it starts; for older versions name them with --model, or do this again when it runs.",
        err=True,
    )


def _checked(name: str) -> str:
    """A name that can be part of a file's name, and that Codex does not reserve."""
    if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
        raise SetupError(f"The name {name!r} cannot be used: take letters, digits, - and _.")
    if name in ("openai", "ollama", "lmstudio"):
        raise SetupError(f"Codex has reserved the name {name!r}: take another one.")
    return name
