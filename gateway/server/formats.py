"""Loads the grammars of custom tools before a turn needs them, off the event loop.

Loading is pure and remembered (gateway/grammar/load.py), but a definition can take some 10 ms the first time, which
no other connection should feel.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterator

from gateway.grammar.load import MAX_LOADED
from gateway.tools import custom
from gateway.tools.namespace import Declared, flatten
from gateway.tools.options import ToolOptions
from gateway.tools.promotion import is_usable
from gateway.wire.json import JSON

log = logging.getLogger(__name__)

Key = tuple[str, str, bool]


class Formats:
    """Knows which definitions are loaded."""

    def __init__(self) -> None:
        self._loaded: OrderedDict[Key, None] = OrderedDict()

    async def ready(self, request: JSON, options: ToolOptions) -> None:
        """Returns when every grammar that this request declares is loaded.

        Raises:
            RequestError: one that is empty or broken, by tool and line.
        """
        for declared in _custom_tools(request):
            key = _key(declared.tool, options)
            if key is None:
                continue
            if key not in self._loaded:
                await asyncio.to_thread(custom.check_tool, declared.tool, declared.path, options)
                _say_what_is_not_done(declared.tool, options)
            self._loaded[key] = None
            self._loaded.move_to_end(key)
            while len(self._loaded) > MAX_LOADED:
                self._loaded.popitem(last=False)


def _say_what_is_not_done(tool: JSON, options: ToolOptions) -> None:
    """Once for each definition, not with every request."""
    grammar = custom.grammar_of(tool)
    if grammar is not None and grammar.unchecked_reason is not None:
        log.info("custom tool '%s' is not checked: %s", tool["name"], grammar.unchecked_reason)
    note = custom.constraint_note(tool, options)
    if note is not None:
        log.info(note)


def _key(tool: JSON, options: ToolOptions) -> Key | None:
    form = tool.get("format") or {}
    if form.get("type") != "grammar":
        return None
    return form["syntax"], form["definition"], options.pattern


def _custom_tools(request: JSON) -> Iterator[Declared]:
    given = request.get("input")
    items = given if isinstance(given, list) else []
    yield from _customs(request.get("tools") or [], "tools")
    for index, item in enumerate(items):
        if item.get("type") == "additional_tools":
            yield from _customs(item["tools"], f"input[{index}].tools")


def _customs(tools: list[JSON], path: str) -> Iterator[Declared]:
    """The usable ones; what else stands in an item is the table's to leave out."""
    for declared in flatten(tools, path):
        if declared.tool.get("type") == "custom" and is_usable(declared.tool):
            yield declared
