"""The docs say what the code does: diagrams made from the tables."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_state_diagrams_are_made_from_the_tables() -> None:
    script = runpy.run_path(str(DOCS / "make_diagrams.py"))
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    assert script["made"](page) == page
    assert "streaming --> completed: complete" in page
