"""Hosted tools, which the API's own service would run: echoed to the client, and upstream only where it knows them."""

from typing import Final

from gateway.errors import RequestError
from gateway.tools.options import Policy
from gateway.tools.search import is_client_search
from gateway.wire.json import JSON

_CALLABLE: Final = frozenset({"function", "custom", "namespace"})


def is_hosted(tool: JSON) -> bool:
    """Whether somebody else than the client would run this tool."""
    return tool.get("type") not in _CALLABLE and not is_client_search(tool)


def lower_tool(tool: JSON, path: str, policy: Policy) -> JSON | None:
    """The declaration for upstream, or None when it stays here.

    Raises:
        RequestError: the profile says that such tools are to be refused.
    """
    if policy == "reject":
        raise RequestError(
            f"Hosted tool '{tool.get('type')}' cannot be run by this model server.",
            code="unsupported_parameter",
            param=path,
        )
    if policy == "drop":
        return None
    return {key: value for key, value in tool.items() if key != "defer_loading"}
