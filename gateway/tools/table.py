"""The tool table of one request: every callable tool once, found by its public and by its upstream name.

Tools come from three places, in this order, so that a grown history only ever adds rows behind the old ones and the
upstream's prefix cache holds: the request's `tools`, `additional_tools` items, pairs of tool_search.
"""

from collections.abc import Callable
from typing import Final

from gateway.errors import RequestError
from gateway.tools import custom, function, hosted, promotion, search
from gateway.tools.names import (
    SEARCH_KEY,
    SEPARATOR,
    TOP_LEVEL_ALIAS,
    NameBook,
    Public,
    public_key,
)
from gateway.tools.namespace import Declared, flatten
from gateway.tools.options import ToolOptions
from gateway.tools.row import CallIds, CallStream, Row, restored
from gateway.wire.json import JSON

_OPEN: Final[dict[str, Callable[[Row, CallIds], CallStream]]] = {
    "function": function.open_stream,
    "tool_search": search.open_stream,
}


class ToolTable:
    """Built once a turn by `ToolTable.build`; read-only afterwards."""

    def __init__(self, options: ToolOptions) -> None:
        self._options = options
        self._book = NameBook(options.name_rule)
        self._rows: dict[Public, Row] = {}
        self._by_upstream: dict[str, Row] = {}
        self._aliases: dict[str, Row | None] = {}
        self._is_eager = options.deferred == "eager"
        # Hosted tools that upstream may be given, in the order of their declarations.
        self.hosted: list[JSON] = []
        # What each pair of tool_search has made callable, by call_id.
        self.loaded: dict[str, list[Row]] = {}
        self.notes: list[str] = []

    @classmethod
    def build(
        cls, tools: list[JSON], items: list[JSON], options: ToolOptions | None = None
    ) -> "ToolTable":
        """Reads declarations and items.

        Args:
            tools: the request's own `tools`.
            items: the whole history with the new input, public form.
            options: see `ToolOptions`.

        Raises:
            RequestError: a hosted tool where the profile refuses them.
        """
        table = cls(options or ToolOptions())
        declared = list(flatten(tools, "tools"))
        table._is_eager = table._is_eager or _has_hosted_search(tools)
        table._reserve(declared)
        for tool in declared:
            table._declare(tool)
        table._read_items(items)
        table._index()
        return table

    def _reserve(self, declared: list[Declared]) -> None:
        """A declared top-level tool wins a name, wherever in the list it stands; a deferred one after the search."""
        top = [tool for tool in declared if tool.key[0] is None and not hosted.is_hosted(tool.tool)]
        for tool in sorted(top, key=_rank):
            self._name(tool.key)

    def _name(self, key: Public) -> str:
        if key == SEARCH_KEY:
            return self._book.claim(SEARCH_KEY, search.NAME)
        return self._book.give(*key)

    def _read_items(self, items: list[JSON]) -> None:
        """In order, so that a grown history only ever adds behind the rows that upstream has seen."""
        pairs = {pair.position: pair for pair in promotion.completed_pairs(items)}
        for position, item in enumerate(items):
            if item.get("type") == "additional_tools":
                for tool in flatten(item["tools"], f"input[{position}].tools"):
                    self._declare(tool)
            elif position in pairs:
                self._promote(pairs[position])

    def _declare(self, declared: Declared) -> None:
        tool = declared.tool
        if hosted.is_hosted(tool):
            lowered = hosted.lower_tool(tool, declared.path, self._options.hosted)
            if lowered is not None and lowered not in self.hosted:
                self.hosted.append(lowered)
        elif not _is_usable(tool):
            self.notes.append(f"{declared.path}: not a declaration; left out")
        else:
            self._join(declared)

    def _join(self, declared: Declared) -> None:
        present, is_deferred = self._rows.get(declared.key), _is_deferred(declared.tool)
        if present is not None and present.is_withheld and not is_deferred:
            # Deferred by the request and given by an item of the history, as a compaction does.
            self._rows.pop(declared.key)
            present = None
        if declared.tool["type"] == "custom":
            custom.check_tool(declared.tool, declared.path, self._options)
        double = self._double(declared, declared.namespace) if present is None else None
        if double is not None:
            self.notes.append(f"{declared.path}: '{declared.name}' is left out: {double}")
        elif present is None:
            withhold = is_deferred and not self._is_eager
            self._add(declared, declared.namespace, is_withheld=withhold)
        elif present.declaration != declared.tool:
            self.notes.append(
                f"{declared.path}: '{declared.name}' is declared already; kept the first"
            )

    def _add(
        self,
        declared: Declared,
        namespace: str | None,
        *,
        is_withheld: bool = False,
        is_loaded: bool = False,
    ) -> Row:
        row = Row(
            kind=str(declared.tool["type"]),
            name=search.NAME if declared.key == SEARCH_KEY else declared.name,
            namespace=namespace,
            upstream=self._name(declared.key),
            declaration=declared.tool,
            path=declared.path,
            is_withheld=is_withheld,
            is_loaded=is_loaded,
        )
        self._rows[declared.key] = row
        return row

    def _promote(self, pair: promotion.Pair) -> None:
        found = self.loaded.setdefault(pair.call_id, [])
        for declared in flatten(pair.tools, f"tool_search {pair.call_id}"):
            row = self._load(declared)
            if row is not None and row not in found:
                found.append(row)

    def _load(self, declared: Declared) -> Row | None:
        """The row that a loaded tool may be called by from now on, None when there is none."""
        present = self._rows.get(declared.key)
        # A bare tool that was loaded is called with its own name as namespace (responses-api.md section 0.8).
        namespace = declared.namespace or (present and present.namespace) or declared.name
        why = self._obstacle(declared, present, namespace)
        if why is not None:
            self.notes.append(f"{declared.path}: '{declared.name}' is not loaded: {why}")
            return None
        if present is not None:
            if present.is_loaded or not _is_deferred(present.declaration):
                return present
            if present.is_withheld:
                # Behind the rows that upstream has seen already, so that its cached prefix survives.
                del self._rows[declared.key]
        return self._add(declared, namespace, is_loaded=True)

    def _obstacle(self, declared: Declared, present: Row | None, namespace: str) -> str | None:
        if not promotion.is_usable(declared.tool):
            return "not a declaration"
        if declared.tool["type"] == "custom":
            try:
                custom.check_tool(declared.tool, declared.path, self._options)
            except RequestError as error:
                return error.message
        if declared.key == (None, search.NAME) and SEARCH_KEY in self._rows:
            return "the search itself has this name"
        if present is None:
            return self._double(declared, namespace)
        kind = declared.tool["type"]
        return None if present.kind == kind else f"declared as {present.kind}"

    def _double(self, declared: Declared, namespace: str | None) -> str | None:
        """A bare `x` that was loaded and a member `x` of a namespace `x` could not be told apart in a call."""
        if namespace != declared.name:
            return None
        public = namespace, declared.name
        rows = (self._rows.get(key) for key in (public, (None, declared.name)))
        double = next((row for row in rows if row is not None and row.public == public), None)
        return None if double is None else f"{double.path} is called by the same name"

    def _index(self) -> None:
        """Fills the ways back: exact upstream names, and the forms that models make of them."""
        for row in self._rows.values():
            self._by_upstream[row.upstream] = row
        for row in self._rows.values():
            for alias in _aliases(row):
                same = self._aliases.get(alias, row)
                self._aliases[alias] = row if same is row else None

    def find(self, namespace: str | None, name: str) -> Row | None:
        """The row of a public name; a bare function that was loaded is also found under its own name as namespace."""
        row = self._rows.get(public_key(namespace, name))
        return self._rows.get((None, name)) if row is None and namespace == name else row

    @property
    def search_row(self) -> Row | None:
        """The client's own tool_search, when it is declared."""
        return self._rows.get(SEARCH_KEY)

    def lift(self, upstream_name: str) -> Row | None:
        """The tool that a model means, None when nothing declared it or when it could be two."""
        exact = self._by_upstream.get(upstream_name)
        return exact if exact is not None else self._aliases.get(upstream_name)

    def upstream_name(self, namespace: str | None, name: str) -> str:
        """The upstream name of a call in the history; it need not be declared now."""
        row = self.find(namespace, name)
        if row is not None:
            return row.upstream
        if name == search.NAME and public_key(namespace, name)[0] is None:
            # The model's own malformed search, which the client was given as a function call.
            return self.search_name()
        return self._name(public_key(None if namespace == name else namespace, name))

    def search_name(self) -> str:
        """The upstream name of tool_search, declared now or not."""
        return self._name(SEARCH_KEY)

    def rows(self) -> list[Row]:
        """The tools that are sent upstream, in order."""
        return [row for row in self._rows.values() if not row.is_withheld]

    def rows_of_history(self) -> list[Row]:
        """Tools that the request does not declare itself: loaded ones and those of `additional_tools` items."""
        return [row for row in self._rows.values() if not row.path.startswith("tools[")]

    def lower(self, rows: list[Row], *, constrain: bool = True) -> list[JSON]:
        """Their declarations for upstream; custom tools with the pattern of their grammar, if it honours that."""
        return [self._lower_row(row, constrain) for row in rows]

    def _lower_row(self, row: Row, constrain: bool) -> JSON:
        if row.kind == "tool_search":
            return search.lower_tool(row, [r for r in self._rows.values() if r.is_withheld])
        if row.kind == "custom":
            return custom.lower_tool(row, self._options, constrain=constrain)
        return function.lower_tool(row)

    def open_call(self, upstream_name: str, ids: CallIds) -> CallStream:
        """The stream of a call that the model makes."""
        row = self.lift(upstream_name)
        if row is None:
            return function.open_unknown(self._restore(upstream_name), ids)
        if row.kind == "custom":
            return custom.open_stream(row, ids, self._options)
        return _OPEN[row.kind](row, ids)

    def _restore(self, upstream_name: str) -> JSON:
        """What the model calls but nothing declares: a call of the history may have taught it one of our names."""
        owner = self._book.owner(upstream_name)
        return {"name": upstream_name} if owner in (None, SEARCH_KEY) else restored(*owner)

    def public_tools(self, tools: list[JSON]) -> list[JSON]:
        """The request's own tools, in order, without `defer_loading` where the tool has been loaded."""
        if not self.loaded:
            return tools
        return [self._public_tool(None, tool) for tool in tools]

    def _public_tool(self, namespace: str | None, tool: JSON) -> JSON:
        if tool.get("type") == "namespace":
            return {**tool, "tools": [self._public_tool(tool["name"], m) for m in tool["tools"]]}
        row = None
        if _is_deferred(tool) and tool.get("type") in ("function", "custom"):
            row = self._rows.get(public_key(namespace, tool["name"]))
        if row is None or not row.is_loaded:
            return tool
        return {key: value for key, value in tool.items() if key != "defer_loading"}


def _is_usable(tool: JSON) -> bool:
    return search.is_usable(tool) if search.is_client_search(tool) else promotion.is_usable(tool)


def _is_deferred(tool: JSON) -> bool:
    return bool(tool.get("defer_loading"))


def _rank(declared: Declared) -> int:
    """Who takes a contested name first: tools that are called at once, the search, tools that come later."""
    return 2 * _is_deferred(declared.tool) + (declared.key == SEARCH_KEY)


def _has_hosted_search(tools: list[JSON]) -> bool:
    """A search that the service would run cannot be run here: its tools would stay out of reach."""
    return any(tool.get("type") == "tool_search" and hosted.is_hosted(tool) for tool in tools)


def _aliases(row: Row) -> list[str]:
    """`member`, `ns.member`, `ns__member`; some models put `functions.` before a top-level name."""
    namespace = row.namespace or TOP_LEVEL_ALIAS
    return [row.name, f"{namespace}.{row.name}", f"{namespace}{SEPARATOR}{row.name}"]
