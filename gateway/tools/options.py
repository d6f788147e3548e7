"""What profile and configuration say about tools."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from gateway.tools.names import DEFAULT_RULE, NameRule

Policy = Literal["drop", "pass", "reject"]
Invalid = Literal["custom_call", "function_call"]


class ToolOptions(Struct, frozen=True):
    """One upstream's and one user's rules for tools.

    Attributes:
        name_rule: what upstream accepts as a function name.
        deferred: `withhold` keeps deferred tools back until they are loaded; `eager` sends them all, for models that
            never search (openai/codex #37075).
        hosted: what becomes of tools that somebody else would run.
        invalid: what a custom call becomes whose text does not match its grammar: still a custom call, so that the
            client's own parser tells the model what is wrong, or the ordinary function call.
        invalid_by_name: the same for single tools, by their public names.
        pattern: upstream keeps the arguments of a function to a JSON-Schema `pattern`.
        pattern_strict: it does so only for a function with `strict: true` (vLLM).
    """

    name_rule: NameRule = DEFAULT_RULE
    deferred: Literal["withhold", "eager"] = "withhold"
    hosted: Policy = "drop"
    invalid: Invalid = "custom_call"
    invalid_by_name: Mapping[str, Invalid] = {}
    pattern: bool = False
    pattern_strict: bool = False

    def invalid_of(self, name: str) -> Invalid:
        """What an invalid call of this tool becomes."""
        return self.invalid_by_name.get(name, self.invalid)
