"""A group that imports a command when it is asked for: a gateway that serves keeps none of the others in memory."""

import importlib
from collections.abc import Mapping

import click


class LazyGroup(click.Group):
    """A group whose further commands stand in modules of their own.

    Attributes:
        lazy: name of a command -> `module:attribute`.
    """

    lazy: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = self.lazy.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command
