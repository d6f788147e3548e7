"""Options that the commands share: where the gateway is, and the key for it."""

import os
from collections.abc import Callable
from typing import Any, Final

import click

from gateway.config import ServerConfig

EXIT_USAGE: Final = 2
DEFAULT_URL: Final = f"http://{ServerConfig().host}:{ServerConfig().port}"

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

url_option: Decorator = click.option(
    "--url",
    default=DEFAULT_URL,
    show_default=True,
    metavar="URL",
    help="Where the gateway is.",
)
key_option: Decorator = click.option(
    "--key-env",
    default="",
    metavar="NAME",
    help="The environment variable with a key for the gateway, if it asks for one.",
)


def read_key(name: str) -> str:
    """The key in a variable; a name without a value is an error.

    Raises:
        click.UsageError: in one sentence.
    """
    if not name:
        return ""
    key = os.environ.get(name, "")
    if not key:
        raise click.UsageError(f"The environment variable {name} is empty: export the key in it.")
    return key
