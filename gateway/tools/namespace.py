"""Namespaces: a declaration that holds tools, taken apart into its members."""

from collections.abc import Iterator

from msgspec import Struct

from gateway.tools.names import TOP_LEVEL_ALIAS
from gateway.wire.json import JSON


class Declared(Struct, frozen=True):
    """One tool declaration in its place.

    Attributes:
        namespace: the public namespace, None at the top level.
        tool: the declaration itself, never a namespace.
        path: where it stands in the request (`tools[1].tools[0]`).
    """

    namespace: str | None
    tool: JSON
    path: str

    @property
    def name(self) -> str:
        """Public name; tools without one go by their type."""
        return str(self.tool.get("name") or self.tool["type"])

    @property
    def upstream_namespace(self) -> str | None:
        """The namespace that the upstream name is made from: members of `functions` keep their bare names."""
        return None if self.namespace == TOP_LEVEL_ALIAS else self.namespace


def flatten(tools: list[JSON], path: str) -> Iterator[Declared]:
    """Every tool of a list in order, namespace members in the place of their namespace."""
    for index, tool in enumerate(tools):
        here = f"{path}[{index}]"
        if tool.get("type") != "namespace":
            yield Declared(namespace=None, tool=tool, path=here)
            continue
        for position, member in enumerate(tool["tools"]):
            yield Declared(namespace=tool["name"], tool=member, path=f"{here}.tools[{position}]")
