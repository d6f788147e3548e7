"""Do the links of our Markdown pages lead somewhere? Relative files and anchors; nothing is fetched.

    python tests/tools/check_links.py [FILE.md …]

Prints one line a dead link and exits with 1 if there is any.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]

_fence = re.compile(r"^(```|~~~).*?^\1\s*?$", re.MULTILINE | re.DOTALL)
_code = re.compile(r"`[^`\n]*`")
_link = re.compile(r"\[[^\]]*\]\(<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\)")
_reference = re.compile(r"^\[[^\]]+\]:\s+(\S+)", re.MULTILINE)
_heading = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_is_external = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE).match


def anchors(page: str) -> set[str]:
    """The anchors that GitHub makes of the headings."""
    seen: dict[str, int] = {}
    found = set()
    for heading in _heading.findall(_fence.sub("", page)):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        found.add(f"{slug}-{count}" if count else slug)
    return found


def links(page: str) -> Iterator[str]:
    text = _code.sub("", _fence.sub("", page))
    yield from _link.findall(text)
    yield from _reference.findall(text)


def dead_links(path: Path) -> Iterator[str]:
    """The links of one page that lead nowhere."""
    page = path.read_text(encoding="utf-8")
    for link in links(page):
        if _is_external(link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and not _has_anchor(target, anchor)):
            yield link


def _has_anchor(target: Path, anchor: str) -> bool:
    """Only Markdown pages are read; `#L10` of a source file is taken as it is."""
    return target.suffix != ".md" or anchor in anchors(target.read_text(encoding="utf-8"))


def pages() -> list[Path]:
    """All Markdown pages that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def main(arguments: list[str]) -> int:
    dead = [
        f"{path}: {link}"
        for path in ([Path(name) for name in arguments] or pages())
        for link in dead_links(path)
    ]
    print("\n".join(dead) or "all links lead somewhere")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
