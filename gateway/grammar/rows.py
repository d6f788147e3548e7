"""The parser: which lexemes may come next, and what follows each. Earley's algorithm over compiled rules.

A `Row` is where the parse stands between two lexemes. Without recursion all rules are written out in
place, rows are finitely many and kept, and a step is one look-up. With recursion a row holds the rows in
which its open rules began, so what is kept grows with the nesting and not with the text.

The words come from llguidance, whose language this is: greedy lexemes, only those that the row allows;
`%ignore` between lexemes, neither in front of the first nor where nothing can follow.
"""

from collections.abc import Iterable

from gateway.grammar.automaton import Lexer, State
from gateway.grammar.nodes import Call, Chars, Token, nullable
from gateway.grammar.problems import Unsupported
from gateway.grammar.rules import MAX_REFERENCE_DEPTH, START, Rules
from gateway.grammar.thompson import Thompson

# States of all rules together; Codex's grammar written out has about 120.
MAX_RULE_STATES = 20_000
# Rows kept for one grammar without recursion; a fresh cache is begun after that.
MAX_CACHED_ROWS = 5_000
# Empty moves are kept for a state that has no more of them, else followed again: all pairs would be too many.
MAX_KEPT_STATES = 100
# Open brackets of a text under a recursive grammar: some 3 KB each. JSON readers stop near 1,000 too.
MAX_TEXT_DEPTH = 1_000
# An item of a row costs about four times what a state of the lexer does.
ITEM_FUEL = 4

Item = tuple[int, "Row"]


class Row:
    """Where the parse stands: `state` is the lexer's start there, `lexemes` what it may yield."""

    __slots__ = ("accepts", "calls", "depth", "lexemes", "next", "scans", "state")

    def __init__(self) -> None:
        self.accepts = False  # the text may end here
        self.depth = 0  # rows that its open rules keep alive
        self.scans: dict[int, list[Item]] = {}  # what follows each lexeme
        self.calls: dict[str, list[Item]] = {}  # what follows each rule that begins here
        self.lexemes: frozenset[int] = frozenset()
        self.state: State
        self.next: dict[frozenset[int], Row] = {}  # kept where rows are finitely many


class _RuleStates(Thompson):
    """The rules as states: a move takes a lexeme, or calls a rule where rules are not written out."""

    def __init__(self, rules: Rules, *, inline: bool) -> None:
        self.inline = inline
        self._rules = rules.rules
        try:
            self._compile()
        except Unsupported:
            if not self.inline:
                raise
            self.inline = False  # too large when written out
            self._compile()

    def _compile(self) -> None:
        super().__init__(MAX_RULE_STATES, "rules")
        self.token: dict[int, tuple[int, int]] = {}
        self.call: dict[int, tuple[str, int]] = {}
        self.final: dict[int, str] = {}
        self.entries: dict[str, int] = {}
        self._depth = 0
        self._busy: dict[int, tuple[int, ...]] = {}
        for name in [START] if self.inline else self._rules:
            self.entries[name] = self.new()
            self.final[self.add(self._rules[name], self.entries[name])] = name

    def leaf(self, leaf: Chars | Token | Call, entry: int) -> int:
        if isinstance(leaf, Call) and self.inline:
            return self._written_out(leaf.rule, entry)
        end = self.new()
        if isinstance(leaf, Call):
            self.call[entry] = (leaf.rule, end)
        else:
            assert isinstance(leaf, Token)
            self.token[entry] = (leaf.index, end)
        return end

    def busy(self, state: int) -> tuple[int, ...]:
        """The states with a move or an end that empty moves lead to."""
        if (known := self._busy.get(state)) is not None:
            return known
        waiting, seen = [state], {state}
        found = []
        while waiting:
            at = waiting.pop()
            if at in self.token or at in self.call or at in self.final:
                found.append(at)
            for following in self.empty[at]:
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
        result = tuple(found)
        if len(seen) <= MAX_KEPT_STATES:
            self._busy[state] = result
        return result

    def _written_out(self, rule: str, entry: int) -> int:
        self._depth += 1
        if self._depth > MAX_REFERENCE_DEPTH:
            raise Unsupported(f"rules nested more than {MAX_REFERENCE_DEPTH} deep")
        end = self.add(self._rules[rule], entry)
        self._depth -= 1
        return end


class Parser:
    """The compiled rules of a grammar, with its lexer."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        trees = [lexeme.tree for lexeme in rules.lexemes]
        self.ignored = len(trees) if rules.ignored is not None else None
        self.lexer = Lexer(trees if rules.ignored is None else [*trees, rules.ignored])
        self.priorities = {
            index: lexeme.priority for index, lexeme in enumerate(rules.lexemes) if lexeme.priority
        }
        self.nullable = _nullable_rules(rules)
        self.states = _RuleStates(rules, inline=not rules.recursive)
        self.inline = self.states.inline
        self._rows: dict[frozenset[int], Row] = {}
        self._first: Row | None = None

    # -------------------------------------------------------------------------------- running

    def first(self) -> Row:
        """Where every text begins."""
        if self._first is None:
            row = Row()
            self._close(row, [(self.states.entries[START], row)])
            row.accepts = START in self.nullable
            row.state = self.lexer.start(row.lexemes)  # nothing is ignored in front of the text
            self._first = row
        return self._first

    def after(self, row: Row, ended: frozenset[int]) -> Row:
        """The row behind one lexeme that the row allows; it may be any of `ended`."""
        if ended in row.next:
            return row.next[ended]
        found = self._after(row, ended)
        if self.inline:
            row.next[ended] = found
        return found

    def _after(self, row: Row, ended: frozenset[int]) -> Row:
        if self.ignored in ended:
            return row  # llguidance: what may be ignored is ignored
        if self.priorities and len(ended) > 1:
            top = max(self.priorities.get(lexeme, 0) for lexeme in ended)
            ended = frozenset(at for at in ended if self.priorities.get(at, 0) == top)
        kernel = [item for lexeme in ended for item in row.scans[lexeme]]
        if not self.inline:
            return self._finished(Row(), kernel)
        key = frozenset(state for state, _ in kernel)
        if key not in self._rows:
            if len(self._rows) >= MAX_CACHED_ROWS:
                self._rows.clear()
                self.first().next.clear()
                self.lexer.forget(starts=True)
            self._rows[key] = self._finished(Row(), kernel)
        return self._rows[key]

    def _finished(self, row: Row, kernel: list[Item]) -> Row:
        row.depth = 1 + max(origin.depth for _, origin in kernel)
        if row.depth > MAX_TEXT_DEPTH:
            raise Unsupported(f"a text nested more than {MAX_TEXT_DEPTH} deep")
        self._close(row, kernel)
        lexemes = row.lexemes
        if lexemes and self.ignored is not None:
            lexemes |= {self.ignored}
        row.state = self.lexer.start(lexemes)
        return row

    def _close(self, row: Row, kernel: Iterable[Item]) -> None:
        """Everything that holds where the kernel holds: rules that begin here, rules that end here."""
        states = self.states
        waiting: list[Item] = []
        seen: set[Item] = set()
        tried = 0

        def add(items: Iterable[Item]) -> None:
            nonlocal tried
            for state, origin in items:
                for busy in states.busy(state):
                    tried += 1
                    item = (busy, origin)
                    if item not in seen:
                        seen.add(item)
                        waiting.append(item)

        add(kernel)
        while waiting:
            state, origin = waiting.pop()
            if (token := states.token.get(state)) is not None:
                row.scans.setdefault(token[0], []).append((token[1], origin))
            elif (call := states.call.get(state)) is not None:
                name, back = call
                row.calls.setdefault(name, []).append((back, origin))
                add([(states.entries[name], row)])
                if name in self.nullable:
                    add([(back, origin)])
            else:
                rule = states.final[state]
                row.accepts |= rule == START and (self.inline or origin is self._first)
                if origin is not row:
                    add(origin.calls.get(rule, ()))
        self.lexer.fuel -= ITEM_FUEL * tried
        row.lexemes = frozenset(row.scans)


def _nullable_rules(rules: Rules) -> frozenset[str]:
    """Rules that may match the empty text, by growing the set until it holds."""
    found: frozenset[str] = frozenset()
    while True:
        grown = frozenset(
            name for name, tree in rules.rules.items() if nullable(tree, found.__contains__)
        )
        if grown == found:
            return found
        found = grown
