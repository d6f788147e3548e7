"""No file escapes the import rules: each module of upstream/ either talks or is held to be pure."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]

# What reaches for the network, a process or the clock. Everything else is protocol, hence pure.
TALKING = {"client", "local", "local_server", "probe"}


def contract(name: str) -> dict[str, list[str]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (found,) = [contract for contract in contracts if contract["id"] == name]
    return found


def test_every_dialect_module_is_held_to_be_pure() -> None:
    files = {path.stem for path in (ROOT / "gateway" / "upstream").glob("*.py")} - {"__init__"}
    pure = {
        module.removeprefix("gateway.upstream.")
        for module in contract("pure-dialects")["source_modules"]
    }
    assert pure == files - TALKING


def test_both_pure_contracts_forbid_the_same() -> None:
    rooms, dialects = contract("pure-rooms"), contract("pure-dialects")
    assert rooms["forbidden_modules"] == dialects["forbidden_modules"]
