"""The lexer: all lexemes that may come next, run side by side over characters, one cached step at a time.

A `State` of the running lexer is the set of automaton states that the characters read so far can be in.
Its moves are found when first needed and kept, so known text costs one dictionary look-up per character.
No text makes it go back, so nested quantifiers and the like are harmless.
"""

from bisect import bisect_right
from collections.abc import Iterable

from gateway.grammar.chars import CharSet
from gateway.grammar.nodes import Call, Chars, Node, Token
from gateway.grammar.problems import OutOfFuel
from gateway.grammar.thompson import Thompson

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
        if state is not None and self.lexer.fuel < 0:
            raise OutOfFuel  # the move is kept: who earns more fuel asks again at no cost
        return state

    def owners(self) -> set[int]:
        """Lexemes that could go on from here."""
        return {self.lexer.owner[state] for state in self.alive}


class Lexer(Thompson):
    """The automaton of a grammar's lexemes.

    `fuel` is what new moves may still cost; whoever feeds text fills it first.
    """

    def __init__(self, trees: Iterable[Node]) -> None:
        super().__init__(MAX_STATES, "terminals")
        self.borders: dict[int, CharSet] = {}  # what a state waits for; others wait for nothing
        self.target: dict[int, int] = {}
        self.owner: dict[int, int] = {}  # the lexeme of a state that waits
        self.ends: dict[int, int] = {}
        self.entries: list[int] = []
        self.fuel = 0
        self.moves = 0
        self._states: dict[tuple[frozenset[int], frozenset[int]], State] = {}
        self._starts: dict[frozenset[int], State] = {}
        for tree in trees:
            self.entries.append(self.new())
            self.ends[self.add(tree, self.entries[-1])] = len(self.entries) - 1

    def leaf(self, leaf: Chars | Token | Call, entry: int) -> int:
        assert isinstance(leaf, Chars)
        self.borders[entry] = leaf.borders
        self.owner[entry] = len(self.entries) - 1
        self.target[entry] = self.new()
        return self.target[entry]

    # -------------------------------------------------------------------------------- running

    def start(self, lexemes: frozenset[int]) -> State:
        """The state in which any of these lexemes may begin."""
        state = self._starts.get(lexemes)
        if state is None:
            if len(self._starts) >= MAX_CACHED_STARTS:
                self.forget(starts=True)
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
            if at in self.borders:
                alive.append(at)
            elif at in self.ends:
                accepts.add(self.ends[at])
            for next_state in self.empty[at]:
                if next_state not in seen:
                    seen.add(next_state)
                    waiting.append(next_state)
        self.fuel -= len(seen)
        key = (frozenset(alive), frozenset(accepts))
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = State(self, tuple(sorted(alive)), key[1])
        return state

    def forget(self, *, starts: bool = False) -> None:
        """Begins a fresh cache. States in use stay, without what they knew."""
        self.moves = 0
        for state in (*self._states.values(), *self._starts.values()):
            state.clear()
        self._states.clear()
        if starts:
            self._starts.clear()
