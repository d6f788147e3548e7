"""The tool table of one request: every callable tool once, found by its public and by its upstream name.

Tools come from three places, in this order, so that a grown history only ever adds rows behind the old ones and the
upstream's prefix cache holds: the request's `tools`, `additional_tools` items, pairs of tool_search.
"""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import Struct

from gateway.tools import custom, function, hosted, promotion, search
from gateway.tools.hosted import Policy
from gateway.tools.names import DEFAULT_RULE, TOP_LEVEL_ALIAS, NameBook, NameRule
from gateway.tools.namespace import Declared, flatten
from gateway.tools.row import CallIds, CallStream, Row
from gateway.wire.json import JSON

Public = tuple[str | None, str]

# tool_search has no public name of its own, and a function of that name may stand beside it. No name is empty.
SEARCH_KEY: Final[Public] = (None, "")

_OPEN: Final[dict[str, Callable[[Row, CallIds], CallStream]]] = {
    "function": function.open_stream,
    "custom": custom.open_stream,
    "tool_search": search.open_stream,
}


class ToolOptions(Struct, frozen=True):
    """What the profile and the configuration say about tools.

    Attributes:
        name_rule: what upstream accepts as a function name.
        deferred: `withhold` keeps deferred tools back until they are loaded; `eager` sends them all, for models that
            never search (openai/codex #37075).
        hosted: what becomes of tools that somebody else would run.
    """

    name_rule: NameRule = DEFAULT_RULE
    deferred: Literal["withhold", "eager"] = "withhold"
    hosted: Policy = "drop"


class ToolTable:
    """Built once a turn by `ToolTable.build`; read-only afterwards."""

    def __init__(self, options: ToolOptions) -> None:
        self._options = options
        self._book = NameBook(options.name_rule)
        self._rows: dict[Public, Row] = {}
        self._by_upstream: dict[str, Row] = {}
        self._aliases: dict[str, Row | None] = {}
        self._hosted: list[JSON] = []
        self._is_eager = options.deferred == "eager"
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
        table._reserve_top_level(declared)
        table._is_eager = table._is_eager or _has_hosted_search(tools)
        for tool in declared:
            table._declare(tool)
        for position, item in enumerate(items):
            if item.get("type") == "additional_tools":
                for tool in flatten(item["tools"], f"input[{position}].tools"):
                    table._declare(tool)
        for pair in promotion.completed_pairs(items):
            table._promote(pair)
        table._index()
        return table

    def _reserve_top_level(self, declared: list[Declared]) -> None:
        """A declared top-level function wins a name, wherever in the list it stands."""
        for tool in declared:
            if tool.upstream_namespace is None and tool.tool.get("type") in ("function", "custom"):
                self._book.give(None, tool.name)

    def _declare(self, declared: Declared) -> None:
        tool = declared.tool
        if hosted.is_hosted(tool):
            lowered = hosted.lower_tool(tool, declared.path, self._options.hosted)
            if lowered is not None and lowered not in self._hosted:
                self._hosted.append(lowered)
            return
        present = self._present(declared)
        if present is None:
            self._add(declared, is_withheld=bool(tool.get("defer_loading")) and not self._is_eager)
        elif present.declaration != tool:
            self.notes.append(
                f"{declared.path}: '{declared.name}' is declared already; kept the first"
            )

    def _present(self, declared: Declared) -> Row | None:
        if declared.tool["type"] == search.NAME:
            return self._rows.get(SEARCH_KEY)
        present = self.find(declared.namespace, declared.name)
        return None if present is not None and present.kind == search.NAME else present

    def _add(
        self, declared: Declared, *, is_withheld: bool = False, is_loaded: bool = False
    ) -> Row:
        namespace, name, kind = declared.namespace, declared.name, str(declared.tool["type"])
        if kind == search.NAME:
            key, upstream = SEARCH_KEY, self._book.claim(SEARCH_KEY, search.NAME)
        else:
            key = namespace, name
            upstream = self._book.give(declared.upstream_namespace, name)
        row = Row(
            kind=kind,
            name=name,
            namespace=name if is_loaded and namespace is None else namespace,
            upstream=upstream,
            declaration=declared.tool,
            path=declared.path,
            is_withheld=is_withheld,
            is_loaded=is_loaded,
        )
        self._rows[key] = row
        return row

    def _promote(self, pair: promotion.Pair) -> None:
        found = self.loaded.setdefault(pair.call_id, [])
        for declared in flatten(promotion.usable_tools(pair.tools), f"tool_search {pair.call_id}"):
            present = self.find(declared.namespace, declared.name)
            if present is None or _can_load(present):
                # Behind the rows that upstream has seen already, so that its cached prefix survives.
                self._rows.pop((declared.namespace, declared.name), None)
                found.append(self._add(declared, is_loaded=True))
            elif present.is_loaded:
                found.append(present)
            else:
                self.notes.append(f"{declared.path}: '{declared.name}' is declared; not promoted")

    def _index(self) -> None:
        """Fills the ways back: exact upstream names, and the forms that models make of them."""
        for row in self._rows.values():
            self._by_upstream[row.upstream] = row
        for row in self._rows.values():
            for alias in _aliases(row):
                same = self._aliases.get(alias, row)
                self._aliases[alias] = row if same is row else None

    def find(self, namespace: str | None, name: str) -> Row | None:
        """The row of a public name.

        `functions` is the top level under another name, and a bare function that was loaded is called with its own
        name as namespace (responses-api.md section 0.8).
        """
        row = self._rows.get((namespace, name))
        if row is None and namespace in (None, TOP_LEVEL_ALIAS, name):
            other = TOP_LEVEL_ALIAS if namespace is None else None
            row = self._rows.get((other, name))
            if row is None and name == search.NAME:
                row = self._rows.get(SEARCH_KEY)
        return row

    def lift(self, upstream_name: str) -> Row | None:
        """The tool that a model means, None when nothing declared it or when it could be two."""
        exact = self._by_upstream.get(upstream_name)
        return exact if exact is not None else self._aliases.get(upstream_name)

    def upstream_name(self, namespace: str | None, name: str) -> str:
        """The upstream name of a call in the history; it need not be declared now."""
        row = self.find(namespace, name)
        if row is not None:
            return row.upstream
        return self._book.give(None if namespace in (TOP_LEVEL_ALIAS, name) else namespace, name)

    def search_name(self) -> str:
        """The upstream name of tool_search, declared now or not."""
        own = self._rows.get(SEARCH_KEY)
        return own.upstream if own is not None else self._book.claim(SEARCH_KEY, search.NAME)

    def rows(self) -> list[Row]:
        """The tools that are sent upstream, in order."""
        return [row for row in self._rows.values() if not row.is_withheld]

    def rows_of_history(self) -> list[Row]:
        """Tools that the request does not declare itself: loaded ones and those of `additional_tools` items."""
        return [row for row in self._rows.values() if not row.path.startswith("tools[")]

    def lower(self, rows: list[Row]) -> list[JSON]:
        """Their declarations for upstream, hosted ones that may pass behind them."""
        return [self._lower_row(row) for row in rows] + self._hosted

    def _lower_row(self, row: Row) -> JSON:
        if row.kind == "tool_search":
            return search.lower_tool(row, [r for r in self._rows.values() if r.is_withheld])
        return custom.lower_tool(row) if row.kind == "custom" else function.lower_tool(row)

    def open_call(self, upstream_name: str, ids: CallIds) -> CallStream:
        """The stream of a call that the model makes."""
        row = self.lift(upstream_name)
        if row is None:
            return function.open_unknown(upstream_name, ids)
        return _OPEN[row.kind](row, ids)

    def public_tools(self, tools: list[JSON]) -> list[JSON]:
        """The request's own tools, in order, without `defer_loading` where the tool has been loaded."""
        if not self.loaded:
            return tools
        return [self._public_tool(None, tool) for tool in tools]

    def _public_tool(self, namespace: str | None, tool: JSON) -> JSON:
        if tool.get("type") == "namespace":
            return {**tool, "tools": [self._public_tool(tool["name"], m) for m in tool["tools"]]}
        row = self.find(namespace, tool["name"]) if tool.get("defer_loading") else None
        if row is None or not row.is_loaded:
            return tool
        return {key: value for key, value in tool.items() if key != "defer_loading"}


def _can_load(row: Row) -> bool:
    """Whether a pair of tool_search may take the place of this row: deferred and not loaded yet."""
    return not row.is_loaded and bool(row.declaration.get("defer_loading"))


def _has_hosted_search(tools: list[JSON]) -> bool:
    """A search that the service would run cannot be run here: its tools would stay out of reach."""
    return any(tool.get("type") == "tool_search" and hosted.is_hosted(tool) for tool in tools)


def _aliases(row: Row) -> list[str]:
    if row.namespace is None:
        return [row.name]
    return [row.name, f"{row.namespace}.{row.name}", f"{row.namespace}__{row.name}"]
