"""The two ways in which a definition can fail: broken (a 400), or beyond what is checked here (`unchecked`)."""


class GrammarSyntaxError(ValueError):
    """The definition is empty or broken: no engine of OpenAI's dialect would take it either.

    Args:
        message: what is wrong, without the place.
        line: of the definition, from 1.
        column: of that line, from 1.
    """

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"{message} (line {line}, column {column})")
        self.message = message
        self.line = line
        self.column = column

    @classmethod
    def at(cls, message: str, text: str, offset: int) -> "GrammarSyntaxError":
        """An error at a character offset of the definition."""
        line_start = text.rfind("\n", 0, offset) + 1
        return cls(message, text.count("\n", 0, offset) + 1, offset - line_start + 1)


class Unsupported(Exception):
    """The definition may be right, but it cannot be checked here; the text is the reason."""


class OutOfFuel(Exception):
    """A text made the automaton grow faster than the text itself."""
