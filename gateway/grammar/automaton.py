"""The lexer: all lexemes that may come next, run side by side over characters, one cached step at a time.

Compiled as Thompson does: states with at most one set of characters, joined by empty moves. A `State` of
the running lexer is the set of such states that the characters read so far can be in; its moves are
found when first needed and kept, so known text costs one dictionary look-up per character. No text
makes it go back, so nested quantifiers and the like are harmless.
"""

from bisect import bisect_right
from collections.abc import Iterable

from gateway.grammar.chars import CharSet
from gateway.grammar.nodes import Alt, Chars, Node, Repeat, Seq
from gateway.grammar.problems import OutOfFuel, Unsupported

# States of all lexemes of one grammar together, before any is run.
MAX_STATES = 50_000
# Moves kept for one grammar; a fresh cache is begun after that. About 100 bytes each.
MAX_CACHED_MOVES = 200_000
# States kept in which lexemes begin: one for each set of lexemes that a place in the rules allows.
MAX_CACHED_STARTS = 5_000


class State(dict[str, "State | None"]):
    """Where the lexer is. Maps a character to the state behind it, or to None where no lexeme goes on."""

    __slots__ = ("accepts", "alive", "lexer")

    def __init__(self, lexer: "Lexer", alive: tuple[int, ...], accepts: frozenset[int]) -> None:
        super().__init__()
        self.lexer = lexer
        self.alive = alive  # states that wait for a character
        self.accepts = accepts  # lexemes that could end here

    def __missing__(self, char: str) -> "State | None":
        state = self.lexer.step(self.alive, ord(char))
        if self.lexer.moves < MAX_CACHED_MOVES:
            self.lexer.moves += 1
        else:
            self.lexer.forget()
        self[char] = state
        return state

    def owners(self) -> set[int]:
        """Lexemes that could go on from here."""
        return {self.lexer.owner[state] for state in self.alive}


class Lexer:
    """The automaton of a grammar's lexemes.

    `fuel` is what new moves may still cost; whoever feeds text fills it first.
    """

    def __init__(self, trees: Iterable[Node]) -> None:
        self.empty: list[list[int]] = []
        self.borders: list[CharSet] = []
        self.target: list[int] = []
        self.owner: list[int] = []
        self.ends: dict[int, int] = {}
        self.entries: list[int] = []
        self.fuel = 0
        self.moves = 0
        self._states: dict[tuple[frozenset[int], frozenset[int]], State] = {}
        self._starts: dict[frozenset[int], State] = {}
        for index, tree in enumerate(trees):
            entry = self._new(index)
            self.entries.append(entry)
            self.ends[self._add(tree, entry, index)] = index

    # ------------------------------------------------------------------------------ compiling

    def _new(self, owner: int) -> int:
        if len(self.empty) >= MAX_STATES:
            raise Unsupported(f"terminals of more than {MAX_STATES} states together")
        self.empty.append([])
        self.borders.append(())
        self.target.append(0)
        self.owner.append(owner)
        return len(self.empty) - 1

    def _add(self, tree: Node, entry: int, owner: int) -> int:
        """Adds the states of a tree behind `entry`, which must be bare; returns where it ends, bare too."""
        match tree:
            case Chars(borders):
                end = self._new(owner)
                self.borders[entry], self.target[entry] = borders, end
                return end
            case Seq(parts):
                for part in parts:
                    entry = self._add(part, entry, owner)
                return entry
            case Alt(options):
                ends = []
                for option in options:
                    start = self._new(owner)
                    self.empty[entry].append(start)
                    ends.append(self._add(option, start, owner))
                return self._join(ends, owner)
            case Repeat(body, least, most):
                return self._add_repeat(body, least, most, entry, owner)
        raise AssertionError(f"{tree} in a lexeme")

    def _add_repeat(self, body: Node, least: int, most: int | None, entry: int, owner: int) -> int:
        for _ in range(least if most is not None else least - 1):
            entry = self._add(body, entry, owner)
        ends = [entry]
        if most is None:
            start = self._new(owner)
            self.empty[entry].append(start)
            end = self._add(body, start, owner)
            self.empty[end].append(start)
            ends = [end] if least else [entry, end]
        else:
            for _ in range(most - least):
                start = self._new(owner)
                self.empty[entry].append(start)
                entry = self._add(body, start, owner)
                ends.append(entry)
        return self._join(ends, owner)

    def _join(self, ends: list[int], owner: int) -> int:
        joined = self._new(owner)
        for end in ends:
            self.empty[end].append(joined)
        return joined

    # -------------------------------------------------------------------------------- running

    def start(self, lexemes: frozenset[int]) -> State:
        """The state in which any of these lexemes may begin."""
        state = self._starts.get(lexemes)
        if state is None:
            if len(self._starts) >= MAX_CACHED_STARTS:
                self._starts.clear()
            state = self._state(self.entries[lexeme] for lexeme in lexemes)
            self._starts[lexemes] = state
        return state

    def step(self, alive: tuple[int, ...], code_point: int) -> State | None:
        borders, target = self.borders, self.target
        self.fuel -= len(alive)
        moved = [target[at] for at in alive if bisect_right(borders[at], code_point) & 1]
        return self._state(moved) if moved else None

    def _state(self, reached: Iterable[int]) -> State:
        """Follows the empty moves."""
        alive: list[int] = []
        accepts: set[int] = set()
        waiting = list(reached)
        seen = set(waiting)
        while waiting:
            at = waiting.pop()
            if self.borders[at]:
                alive.append(at)
            elif at in self.ends:
                accepts.add(self.ends[at])
            for next_state in self.empty[at]:
                if next_state not in seen:
                    seen.add(next_state)
                    waiting.append(next_state)
        self.fuel -= len(seen)
        if self.fuel < 0:
            raise OutOfFuel
        key = (frozenset(alive), frozenset(accepts))
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = State(self, tuple(sorted(alive)), key[1])
        return state

    def forget(self) -> None:
        """Begins a fresh cache. States in use stay, without what they knew."""
        self.moves = 0
        for state in self._states.values():
            state.clear()
        self._states = {
            (frozenset(state.alive), state.accepts): state for state in self._starts.values()
        }
