"""One row of the tool table: a tool under its public name and under the name that upstream knows."""

from typing import Protocol

from msgspec import Struct

from gateway.tools.gate import CallVerdict
from gateway.wire.json import JSON


class Row(Struct, frozen=True):
    """A callable tool of this request.

    Attributes:
        kind: `function`, `custom` or `tool_search`: the key of the kinds table.
        name: public name.
        namespace: public namespace to restore in calls, None at the top level.
        upstream: the function name that upstream sees.
        declaration: the public declaration (a namespace member's own one).
        path: where it was declared, for messages (`tools[2]`).
        is_withheld: deferred and not loaded: not sent upstream, still understood when called.
        is_loaded: promoted from a completed tool_search pair.
    """

    kind: str
    name: str
    namespace: str | None
    upstream: str
    declaration: JSON
    path: str
    is_withheld: bool = False
    is_loaded: bool = False

    @property
    def public(self) -> tuple[str | None, str]:
        """(namespace, name): what a client calls this tool."""
        return self.namespace, self.name

    def restored(self) -> JSON:
        """The keys `name` and, below a namespace, `namespace` of a public call item."""
        return restored(self.namespace, self.name)


def restored(namespace: str | None, name: str) -> JSON:
    """The same keys for a name that has no row."""
    return {"name": name} if namespace is None else {"name": name, "namespace": namespace}


class CallStream(Protocol):
    """A call on its way to the client: argument fragments in, public events out.

    Events come without `sequence_number`, which only the turn can know.
    """

    @property
    def verdict(self) -> CallVerdict | None:
        """What the tool's grammar says of the closed call; None where there is no grammar."""

    def open(self) -> list[JSON]:
        """The events at the upstream's `output_item.added`; empty for a call that is held until it is whole."""

    def delta(self, fragment: str) -> list[JSON]:
        """The events for one fragment of the arguments, "" excluded."""

    def close(self, arguments: str) -> tuple[list[JSON], JSON]:
        """The events at the end, the last one `output_item.done`, and the finished public item.

        Args:
            arguments: all fragments together.
        """

    def cut(self, arguments: str) -> tuple[list[JSON], JSON]:
        """The events for a call that was cut off, without `output_item.done`, and the partial public item."""


class CallIds(Struct, frozen=True):
    """Where a call stands in the response: its item id by kind prefix, call_id and output_index."""

    new_id: "NewId"
    call_id: str
    output_index: int


class NewId(Protocol):
    """Makes a fresh id with a prefix, such as `fc` -> `fc_…`."""

    def __call__(self, prefix: str) -> str: ...
