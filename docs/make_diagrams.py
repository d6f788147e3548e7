"""Makes the state diagrams of docs/architecture.md from the tables in gateway/turn/state.py.

python docs/make_diagrams.py          # rewrites the page
python docs/make_diagrams.py --check  # exit 1 when the page is not what the tables say
"""

import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TypeVar

from gateway.turn.state import ENDS, ITEM_TRANSITIONS, TURN_TRANSITIONS, ItemState, TurnState

PAGE = Path(__file__).with_name("architecture.md")
S = TypeVar("S", bound=Enum)
T = TypeVar("T", bound=Enum)
BLOCK = re.compile(r"(<!-- diagram: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def lines(table: Mapping[S, Mapping[T, S]], start: S, ends: tuple[S, ...]) -> list[str]:
    """Mermaid lines of one table; an end's rows lead back to itself and are left out."""
    drawn = ["stateDiagram-v2", f"    [*] --> {start.value}"]
    for state, row in table.items():
        if state in ends:
            drawn.append(f"    {state.value} --> [*]")
            continue
        triggers: dict[S, list[str]] = defaultdict(list)
        for trigger, target in row.items():
            triggers[target].append(trigger.value)
        drawn += [
            f"    {state.value} --> {target.value}: {', '.join(names)}"
            for target, names in triggers.items()
        ]
    return drawn


DIAGRAMS = {
    "turn": lines(TURN_TRANSITIONS, TurnState.NEW, ENDS),
    "item": lines(
        ITEM_TRANSITIONS,
        ItemState.ABSENT,
        (ItemState.DONE, ItemState.ABANDONED),
    ),
}


def made(page: str) -> str:
    """The page with every diagram block as the tables say."""

    def block(match: re.Match[str]) -> str:
        drawn = "\n".join(DIAGRAMS[match.group(2)])
        return f"{match.group(1)}```mermaid\n{drawn}\n```\n{match.group(3)}"

    return BLOCK.sub(block, page)


def main() -> int:
    page = PAGE.read_text(encoding="utf-8")
    fresh = made(page)
    if "--check" in sys.argv[1:]:
        return int(fresh != page)
    PAGE.write_text(fresh, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
