"""The docs say what the code does: diagrams made from the tables."""

import re
import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_state_diagrams_are_made_from_the_tables() -> None:
    script = runpy.run_path(str(DOCS / "make_diagrams.py"))
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert script["made"](page) == page
    assert "streaming --> completed: complete" in page


def test_every_rule_has_its_test() -> None:
    page = (DOCS / "protocol.md").read_text(encoding="utf-8")
    tables = re.findall(
        r"^\| rule \| held by \|\n\| --- \| --- \|\n((?:\|.*\n)+)", page, re.MULTILINE
    )
    rules = [row for table in tables for row in table.splitlines()]
    held = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", page)
    assert len(held) == len(rules)
    for file, name in held:
        text = (DOCS.parent / file).read_text(encoding="utf-8")
        assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE), f"{file}::{name}"


def test_the_threat_model_names_tests_that_exist() -> None:
    page = (DOCS / "threat-model.md").read_text(encoding="utf-8")
    named = set(re.findall(r"\btest_\w+", page))
    tests = Path(__file__).parent
    there = {
        name
        for path in tests.rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert len(named) > 20
    assert named - there == set()
