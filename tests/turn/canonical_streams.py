"""Valid canonical streams, as a dialect's reader gives them to a turn: the shared strategies of this room.

An answer is described first (`Answer`), so that a test can compare what was said with what left; `events` writes it out
with the reader's guarantees: items one after the other, contiguous indexes, deltas that concatenate to the done text,
one terminal event.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

JSON = dict[str, Any]

USAGE = {
    "input_tokens": 7,
    "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 0},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 12,
}


@dataclass
class Item:
    """One output item: what it is when it is added, its deltas, what it is when it is done."""

    added: JSON
    deltas: list[JSON]
    done: JSON
    kind: str


@dataclass
class Answer:
    """A whole answer. `is_cut`: the last item is incomplete. `terminal` None: the bytes just end."""

    items: list[Item] = field(default_factory=list)
    terminal: JSON | None = None
    is_cut: bool = False

    def events(self) -> list[JSON]:
        stream: list[JSON] = []
        for index, item in enumerate(self.items):
            at = {"output_index": index}
            stream.append({"type": "response.output_item.added", **at, "item": item.added})
            stream += [{**delta, **at} for delta in item.deltas]
            stream.append({"type": "response.output_item.done", **at, "item": item.done})
        return stream if self.terminal is None else [*stream, self.terminal]


def split(text: str, cuts: list[int]) -> list[str]:
    """`text` in non-empty pieces."""
    at = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[a:b] for a, b in itertools.pairwise(at)]


def deltas(kind: str, pieces: list[str], **where: Any) -> list[JSON]:
    return [{"type": f"response.{kind}.delta", **where, "delta": piece} for piece in pieces]


def message(text: list[str], refusal: list[str], status: str, **part: Any) -> Item:
    content: list[JSON] = []
    if text:
        kept = {"annotations": [], "logprobs": [], **part}
        content.append({"type": "output_text", "text": "".join(text), **kept})
    if refusal:
        content.append({"type": "refusal", "refusal": "".join(refusal)})
    added = {"type": "message", "role": "assistant"}
    return Item(
        added=added,
        deltas=[*deltas("output_text", text), *deltas("refusal", refusal)],
        done={**added, "status": status, "content": content},
        kind="message",
    )


def reasoning(summaries: list[list[str]], raw: list[str], status: str, **fields: Any) -> Item:
    written = deltas("reasoning_text", raw)
    for index, pieces in enumerate(summaries):
        written += deltas("reasoning_summary_text", pieces, summary_index=index)
    return Item(
        added={"type": "reasoning"},
        deltas=written,
        done={
            "type": "reasoning",
            "status": status,
            "summary": [{"type": "summary_text", "text": "".join(p)} for p in summaries],
            "content": [{"type": "reasoning_text", "text": "".join(raw)}] if raw else [],
            **fields,
        },
        kind="reasoning",
    )


def call(name: str, call_id: str, pieces: list[str], status: str) -> Item:
    added = {"type": "function_call", "call_id": call_id, "name": name}
    return Item(
        added=added,
        deltas=deltas("function_call_arguments", pieces),
        done={**added, "arguments": "".join(pieces), "status": status},
        kind="call",
    )


def foreign(item: JSON, inner: list[JSON]) -> Item:
    """An item of a type that nobody here knows, with events of its own."""
    return Item(added=item, deltas=inner, done=item, kind="foreign")


def completed(usage: JSON | None = USAGE) -> JSON:
    return {"type": "response.completed", "response": {"usage": usage}}


def incomplete(reason: str = "max_output_tokens", usage: JSON | None = USAGE) -> JSON:
    details = {"reason": reason}
    return {
        "type": "response.incomplete",
        "response": {"incomplete_details": details, "usage": usage},
    }


def failed(code: str = "server_error", message: str = "It broke.") -> JSON:
    error = {"code": code, "message": message}
    return {"type": "response.failed", "response": {"error": error, "usage": None}}


# -- strategies

TEXT = st.text(min_size=1, max_size=12)
CUTS = st.lists(st.integers(0, 200), max_size=4)
PIECES = st.builds(split, TEXT, CUTS)

ARGUMENTS = st.sampled_from(
    [
        "{}",
        '{"input": "*** Begin Patch\\n*** End Patch"}',
        '{"input": "a \\ud83d\\ude00 \\\\ \\u0000"}',
        '{"input": "unescaped "quotes" here"}',
        '{"patch": "x"}',
        '{"input": "x", "more": [1, "}"]}',
        '{"query": "weather"}',
        '{"query": "weather", "limit": 3}',
        '["not", "an", "object"]',
        '"a string"',
        "12",
        "free text without JSON",
    ]
)
STATUSES = st.just("completed")


def messages(status: str) -> st.SearchStrategy[Item]:
    nothing: st.SearchStrategy[list[str]] = st.just([])
    return st.builds(message, PIECES | nothing, PIECES | nothing, st.just(status))


def reasonings(status: str) -> st.SearchStrategy[Item]:
    return st.builds(reasoning, st.lists(PIECES, max_size=2), PIECES | st.just([]), st.just(status))


@st.composite
def calls(draw: st.DrawFn, names: list[str], status: str) -> Item:
    arguments = draw(ARGUMENTS)
    if status == "incomplete":
        arguments = arguments[: draw(st.integers(0, len(arguments)))]
    call_id = draw(st.sampled_from(["", "call_a", "call_b", "x" * 70]))
    return call(draw(st.sampled_from(names)), call_id, split(arguments, draw(CUTS)), status)


def some_item(names: list[str], status: str) -> st.SearchStrategy[Item]:
    return messages(status) | reasonings(status) | calls(names, status)


ENDS = st.sampled_from(
    [completed(), completed(None), incomplete(), incomplete("content_filter"), failed(), None]
)


@st.composite
def answers(draw: st.DrawFn, names: list[str]) -> Answer:
    """Any answer of a model that calls tools of these upstream names."""
    items = draw(st.lists(some_item(names, "completed"), max_size=4))
    terminal = draw(ENDS)
    is_clean = terminal is not None and terminal["type"] == "response.completed"
    is_cut = not is_clean and draw(st.booleans())
    if is_cut:
        items.append(draw(some_item(names, "incomplete")))
    return Answer(items=items, terminal=terminal, is_cut=is_cut)
