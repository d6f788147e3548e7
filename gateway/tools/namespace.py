"""Namespaces: a declaration that holds tools, taken apart into its members."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from gateway.tools.names import SEARCH_KEY, Public, public_key
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
        return str(self.tool.get("name") or self.tool.get("type"))

    @property
    def key(self) -> Public:
        """Its key in the tool table."""
        if self.tool.get("type") == "tool_search":
            return SEARCH_KEY
        return public_key(self.namespace, self.name)


def flatten(tools: list[Any], path: str) -> Iterator[Declared]:
    """Every tool of a list in order, namespace members in the place of their namespace.

    Lists inside items are not checked at the door: what is no tool, or no namespace, is passed over.
    """
    for index, tool in enumerate(tools):
        here = f"{path}[{index}]"
        if not isinstance(tool, dict):
            continue
        if tool.get("type") != "namespace":
            yield Declared(namespace=None, tool=tool, path=here)
        elif _is_namespace(tool):
            for position, member in enumerate(tool["tools"]):
                if isinstance(member, dict):
                    at = f"{here}.tools[{position}]"
                    yield Declared(namespace=tool["name"], tool=member, path=at)


def _is_namespace(tool: JSON) -> bool:
    name = tool.get("name")
    return isinstance(name, str) and bool(name) and isinstance(tool.get("tools"), list)
