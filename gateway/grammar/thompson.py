"""Compiles a tree into states joined by empty moves, as Thompson does; lexer and parser fill in the leaves."""

from abc import ABC, abstractmethod

from gateway.grammar.nodes import Alt, Call, Chars, Node, Repeat, Seq, Token
from gateway.grammar.problems import Unsupported


class Thompson(ABC):
    """States of an automaton: `empty` holds the moves that take nothing."""

    def __init__(self, limit: int, what: str) -> None:
        self.empty: list[list[int]] = []
        self._limit = limit
        self._what = what

    def new(self) -> int:
        """A bare state."""
        if len(self.empty) >= self._limit:
            raise Unsupported(f"{self._what} of more than {self._limit} states together")
        self.empty.append([])
        return len(self.empty) - 1

    @abstractmethod
    def leaf(self, leaf: Chars | Token | Call, entry: int) -> int:
        """Gives `entry` its one move; returns the bare state behind it."""

    def add(self, tree: Node, entry: int) -> int:
        """Adds a tree behind `entry`, which must be bare; returns its end, which is bare too."""
        match tree:
            case Seq(parts):
                for part in parts:
                    entry = self.add(part, entry)
                return entry
            case Alt(options):
                return self._join([self.add(option, self._fork(entry)) for option in options])
            case Repeat(body, least, most):
                return self._repeat(body, least, most, entry)
            case _:
                return self.leaf(tree, entry)

    def _repeat(self, body: Node, least: int, most: int | None, entry: int) -> int:
        for _ in range(least if most is not None else least - 1):
            entry = self.add(body, entry)
        ends = [entry]
        if most is None:
            start = self._fork(entry)
            end = self.add(body, start)
            self.empty[end].append(start)
            ends = [end] if least else [entry, end]
        else:
            for _ in range(most - least):
                entry = self.add(body, self._fork(entry))
                ends.append(entry)
        return self._join(ends)

    def _fork(self, entry: int) -> int:
        start = self.new()
        self.empty[entry].append(start)
        return start

    def _join(self, ends: list[int]) -> int:
        joined = self.new()
        for end in ends:
            self.empty[end].append(joined)
        return joined
