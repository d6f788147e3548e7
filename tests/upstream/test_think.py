"""`<think>` at the start of a text."""

from hypothesis import given
from hypothesis import strategies as st

from gateway.upstream.think import ThinkSplitter


def split(*pieces: str) -> tuple[str, str]:
    splitter = ThinkSplitter()
    parts = [part for piece in pieces for part in splitter.feed(piece)] + splitter.finish()
    assert all(text for _, text in parts)
    reasoning = "".join(text for kind, text in parts if kind == "reasoning")
    return reasoning, "".join(text for kind, text in parts if kind == "text")


def test_q33_cases():
    assert split("<think>a</think>b") == ("a", "b")
    assert split(" \n<think>a</think>\n\nb") == ("a", "b")
    assert split("b <think>a</think>") == ("", "b <think>a</think>")
    assert split(" ", "\n", "b") == ("", " \nb")
    assert split("<thi") == ("", "<thi")
    assert split("  ") == ("", "  ")
    assert split("<think>", "a<", "/", "b</thi", "nk>", "\n", "c", "d") == ("a</b", "cd")
    assert split("<think>a</thin") == ("a</thin", "")
    assert split("<think></think>b") == ("", "b")
    assert split("<think>a</think>b<think>c</think>") == ("a", "b<think>c</think>")


@given(text=st.text(alphabet="<>/think ab\n").filter(bool), data=st.data())
def test_cuts_do_not_matter(text, data):
    text = data.draw(st.sampled_from(["", "<think>"])) + text
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) if a < b]
    assert split(*pieces) == split(text)
