"""One known wrapping comes off when the grammar says so; anything else is left alone."""

import pytest

from gateway.grammar.load import load_grammar
from gateway.grammar.unwrap import MAX_WRAPPED_CHARS, WRAPPINGS, unwrap, unwrapped
from tests.grammar import oracle
from tests.grammar.test_check import PATCH, PATCHES

BODY = "*** Begin Patch\n*** Add File: a\n+hi\n*** End Patch"
EXEC = load_grammar("lark", oracle.CODEX["exec"])


@pytest.mark.parametrize("row", PATCHES, ids=lambda row: row["name"])
def test_the_patch_table(row: dict[str, object]) -> None:
    found = unwrapped(PATCH, str(row["text"]))
    assert (found and found[0]) == row["unwrapped_from"]
    if found:
        assert PATCH.matches(found[1])


WRAPPED = [
    ("fence", f"```\n{BODY}\n```"),
    ("fence", f"```diff\n{BODY}\n```\n"),
    ("fence", f"\n````patch title\n{BODY}\n````"),
    ("fence", f"~~~\n{BODY}\n~~~"),
    ("heredoc", f"apply_patch <<'EOF'\n{BODY}\nEOF"),
    ("heredoc", f"apply_patch << EOF\n{BODY}\nEOF\n"),
    ("heredoc", f'applypatch <<"PATCH"\n{BODY}\nPATCH'),
    ("heredoc", f"<<-EOF\n{BODY}\nEOF"),
    ("heredoc", f"  <<'EOF'  \n{BODY}\nEOF"),
    ("stars", BODY.replace(" Patch", " Patch ***")),
    ("stars", BODY.replace("Begin Patch", "Begin Patch *** ")),
    ("stars", BODY.replace("End Patch", "End Patch ***")),
    ("json", '"' + BODY.replace("\n", "\\n") + '"'),
    ("json", '{"input": "' + BODY.replace("\n", "\\n") + '"}'),
    ("json", ' {"any": "' + BODY.replace("\n", "\\n") + '"}\n'),
]


@pytest.mark.parametrize(("name", "text"), WRAPPED)
def test_each_wrapping(name: str, text: str) -> None:
    found = unwrapped(PATCH, text)
    assert found is not None
    assert found[0] == name
    assert found[1].removesuffix("\n") == BODY
    assert unwrap(PATCH, text) == found[1]
    assert name in WRAPPINGS


LEFT = [
    BODY,
    "",
    "nonsense",
    f"```\n```\n{BODY}\n```\n```",
    f"```\napply_patch <<'EOF'\n{BODY}\nEOF\n```",
    f"```\n{BODY}",
    f"```\n{BODY}\n````x",
    f"Here it is:\n```\n{BODY}\n```",
    f"apply_patch <<'EOF\n{BODY}\nEOF",
    f"apply_patch <<'EOF'\n{BODY}\nEND",
    f"cat <<'EOF'\n{BODY}\nEOF",
    '{"input": "' + BODY.replace("\n", "\\n") + '", "x": 1}',
    '["' + BODY.replace("\n", "\\n") + '"]',
    '{"input": 1}',
    '{"input": {"patch": "' + BODY.replace("\n", "\\n") + '"}}',
    '{"input": "' + BODY.replace("\n", "\\n"),
    "{" * 100_000,
    '{"a":' * 100_000,
    "```\n" + "x" * MAX_WRAPPED_CHARS + "\n```",
]


@pytest.mark.parametrize("text", LEFT, ids=range(len(LEFT)))
def test_anything_else_is_left(text: str) -> None:
    assert unwrap(PATCH, text) is None


def test_the_grammar_is_the_judge() -> None:
    """Any text is JavaScript to code mode's grammar, so nothing is ever taken off there."""
    assert unwrap(EXEC, '{"input": "text(1)"}') is None


def test_the_line_end_inside_goes_only_when_it_must() -> None:
    one_line = load_grammar("lark", "start: /[a-z]+/")
    assert unwrap(one_line, "```js\nabc\n```") == "abc"
    assert unwrap(one_line, "<<X\nabc\nX") == "abc"
    with_end = load_grammar("lark", 'start: /[a-z]+/ "\\n"')
    assert unwrap(with_end, "```js\nabc\n```") == "abc\n"


def test_matching_is_linear() -> None:
    for text in (
        "```" * 50_000,
        "<<A\n" * 50_000,
        "*** Begin Patch ***\n" * 20_000,
        "```\n" * 50_000,
    ):
        assert unwrap(PATCH, text) is None
