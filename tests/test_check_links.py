"""tests/tools/check_links.py: dead links are found, live ones are left alone."""

from pathlib import Path

import pytest

from tests.tools.check_links import anchors, dead_links, main, pages

PAGE = """# One page
[here](#one-page) [other](other.md) [other's](other.md#b-c_d) [web](https://example.org/x#y)
[gone](gone.md) [no anchor](other.md#nowhere) [none here](#two)
`[in code](gone2.md)` ![image](gone.png "title")

```
[fenced](gone3.md)
```

[ref]: gone4.md
"""


def test_dead_links_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other.md").write_text("# A\n## B c_d!\n")
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    dead = ["gone.md", "other.md#nowhere", "#two", "gone.png", "gone4.md"]
    assert list(dead_links(page)) == dead
    assert main([str(page)]) == 1
    assert capsys.readouterr().out.splitlines() == [f"{page}: {link}" for link in dead]


def test_anchors_are_numbered_and_stripped() -> None:
    page = "# A `b` [c](d.md)\n## Twice\n## Twice\n```\n# not this\n```\n### 1.2 Über: x/y ###\n"
    assert anchors(page) == {"a-b-c", "twice", "twice-1", "12-über-xy"}


def test_our_pages_have_no_dead_link() -> None:
    assert pages()
    assert main([]) == 0
