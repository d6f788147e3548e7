"""docs/limits.md has every number that bounds something, with its value, and none that is gone."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMITS = ROOT / "docs" / "limits.md"

_is_limit = re.compile(
    r"(?:MAX|DEFAULT)_[A-Z0-9_]+|[A-Z][A-Z0-9_]*_(?:LIMIT|SECONDS|MINUTES|BYTES|CHARS)"
).fullmatch
_row = re.compile(r"^\| `(\w+)` \| ([^|]+) \| `([\w/.]+\.py)` \| [^|]+ \|$", re.MULTILINE)
_UNITS = {"KiB": 1024, "MiB": 1024 * 1024}


def number(node: ast.expr | None) -> float | None:
    """The value of a number or a product of numbers; None for anything else."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        left, right = number(node.left), number(node.right)
        return None if left is None or right is None else left * right
    return None


def constants() -> dict[tuple[str, str], float]:
    """(name, file) -> value of each module-level number whose name says that it is a limit."""
    found = {}
    for path in (ROOT / "gateway").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
            elif isinstance(node, ast.AnnAssign):
                target = node.target
            else:
                continue
            if isinstance(target, ast.Name) and _is_limit(target.id):
                value = number(node.value)
                if value is not None:
                    found[target.id, path.relative_to(ROOT / "gateway").as_posix()] = value
    return found


def documented() -> dict[tuple[str, str], float]:
    """(name, file) -> value of each row; `64 MiB` is a number of bytes, other units are words."""
    rows = {}
    for name, value, file in _row.findall(LIMITS.read_text()):
        amount, _, unit = value.strip().partition(" ")
        rows[name, file] = float(amount.replace(",", "")) * _UNITS.get(unit, 1)
    return rows


def test_every_limit_is_documented() -> None:
    assert sorted(constants().keys() - documented().keys()) == []


def test_every_documented_limit_exists() -> None:
    assert sorted(documented().keys() - constants().keys()) == []


def test_the_documented_values_are_the_real_ones() -> None:
    real = constants()
    assert {
        row: value for row, value in documented().items() if real.get(row, value) != value
    } == {}


def test_each_row_is_well_formed_and_there_once() -> None:
    lines = [line for line in LIMITS.read_text().splitlines() if line.startswith("| `")]
    assert len(lines) == len(documented())
