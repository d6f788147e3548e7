"""The items that an answer is put together from: message, reasoning, function call, foreign item.

A piece gathers what came for it and can say itself in canonical events: `opening` (its `added`
item), `gathered` (the deltas that came while it waited for its turn) and `closing` (its `done`
item). When that happens is decided in `assembly`.
"""

from abc import ABC, abstractmethod

from gateway.upstream.json_prefix import JSONScan, Verdict, json_verdict
from gateway.wire.json import JSON


class Piece(ABC):
    """One item. `index` is its output_index once its turn has come.

    `fields` are the upstream's own fields that outlive the way through (`phase`).
    """

    __slots__ = ("fields", "index", "is_sealed")

    def __init__(self, fields: JSON) -> None:
        self.fields = fields
        self.index = -1
        self.is_sealed = False  # more text belongs to a new item

    @abstractmethod
    def opening(self) -> JSON:
        """The item as its `added` shows it."""

    @abstractmethod
    def gathered(self) -> list[JSON]:
        """The deltas so far, without output_index."""

    @abstractmethod
    def closing(self, status: str) -> JSON:
        """The whole item for its `done`."""

    def is_over(self) -> bool:
        """Whether the upstream has said that nothing more comes for it."""
        return False

    def blocks(self) -> bool:
        """Whether the items behind it must wait, since more may come for this one."""
        return False


class Message(Piece):
    """Text, then at most one refusal."""

    __slots__ = ("annotations", "logprobs", "refusals", "texts")

    def __init__(self, fields: JSON) -> None:
        super().__init__(fields)
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.annotations: list[JSON] = []
        self.logprobs: list[JSON] = []

    def opening(self) -> JSON:
        return {**self.fields, "type": "message", "role": "assistant"}

    def gathered(self) -> list[JSON]:
        found = [
            ("response.output_text.delta", "".join(self.texts)),
            ("response.refusal.delta", "".join(self.refusals)),
        ]
        return [{"type": kind, "delta": text} for kind, text in found if text]

    def closing(self, status: str) -> JSON:
        content: list[JSON] = []
        if self.texts:
            content.append(
                {
                    "type": "output_text",
                    "text": "".join(self.texts),
                    "annotations": self.annotations,
                    "logprobs": self.logprobs,
                }
            )
        if self.refusals:
            content.append({"type": "refusal", "refusal": "".join(self.refusals)})
        return {**self.opening(), "status": status, "content": content}


class Reasoning(Piece):
    """Reasoning text, and summary parts in the order in which their upstream indices appeared."""

    __slots__ = ("encrypted", "summary", "texts")

    def __init__(self, fields: JSON) -> None:
        super().__init__(fields)
        self.texts: list[str] = []
        self.summary: dict[int, list[str]] = {}
        self.encrypted: str | None = None

    def add_summary(self, part: int, delta: str) -> JSON:
        """Take one delta; the event for it, without its output_index."""
        self.summary.setdefault(part, []).append(delta)
        return self._summary_event(part, delta)

    def _summary_event(self, part: int, delta: str) -> JSON:
        return {
            "type": "response.reasoning_summary_text.delta",
            "summary_index": list(self.summary).index(part),
            "delta": delta,
        }

    def opening(self) -> JSON:
        return {**self.fields, "type": "reasoning"}

    def gathered(self) -> list[JSON]:
        events = [self._summary_event(part, "".join(texts)) for part, texts in self.summary.items()]
        if self.texts:
            text = "".join(self.texts)
            events.append({"type": "response.reasoning_text.delta", "delta": text})
        return events

    def closing(self, status: str) -> JSON:
        item = {
            **self.opening(),
            "summary": [
                {"type": "summary_text", "text": "".join(texts)} for texts in self.summary.values()
            ],
            "content": [],
        }
        if self.texts:
            item["content"] = [{"type": "reasoning_text", "text": "".join(self.texts)}]
        if self.encrypted is not None:
            item["encrypted_content"] = self.encrypted
        return item


class Call(Piece):
    """A function call, whose arguments come in deltas, whole, or as ever longer snapshots (Q25)."""

    __slots__ = (
        "_scan",
        "_scanned",
        "call_id",
        "held",
        "is_announced",
        "is_declared_done",
        "is_done",
        "is_snapshots",
        "length",
        "name",
        "parts",
    )

    def __init__(self, call_id: str, name: str, fields: JSON) -> None:
        super().__init__(fields)
        self.call_id = call_id
        self.name = name
        self.parts: list[str] = []
        self.length = 0
        self.held = ""  # a fragment that may be a delta or a snapshot
        self.is_snapshots = False
        self.is_announced = False  # `added` has been given, the name cannot change any more
        self.is_declared_done = False  # the upstream says that nothing more comes
        self.is_done = False
        self._scan = JSONScan()
        self._scanned = 0  # parts that the scan has seen

    @property
    def text(self) -> str:
        return "".join(self.parts)

    def identify(self, call_id: str, name: str) -> None:
        """Take an id or a name that came late, repeated or in fragments (Q20, Q21, Q23)."""
        if self.is_announced:
            return
        self.call_id = self.call_id or call_id
        if name.startswith(self.name):
            self.name = name
        elif not self.length:
            self.name += name

    def new_text(self, fragment: str) -> str:
        """What of `fragment` is new; "" while only the next one can tell.

        A server that repeats everything so far is recognised when taking the fragment for a delta
        would make no JSON. When both readings make sense (`{"a":` then `{"a":1}`, which may be a
        nested object) the fragment is held: the next one decides, or the end (Q25).
        """
        if self.held:
            held, self.held = self.held, ""
            self.is_snapshots = fragment.startswith(held)
            return fragment[self.length :] if self.is_snapshots else held + fragment
        if len(fragment) < self.length or not self.length:
            return fragment
        text = self.text
        if not fragment.startswith(text):
            return fragment
        if self.is_snapshots or json_verdict(text + fragment) == "malformed":
            self.is_snapshots = True
            return fragment[self.length :]
        self.held = fragment
        return ""

    def release(self) -> str:
        """Decide on the held fragment without a further one: what of it is new."""
        held, self.held = self.held, ""
        if not held:
            return ""
        as_delta, as_snapshot = json_verdict(self.text + held), json_verdict(held)
        is_snapshot = as_snapshot == "complete" and as_delta != "complete"
        return held[self.length :] if is_snapshot else held

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.length += len(text)

    def verdict(self) -> Verdict:
        """How far the arguments got; each part is scanned once."""
        for part in self.parts[self._scanned :]:
            self._scan.feed(part)
        self._scanned = len(self.parts)
        return self._scan.verdict()

    def is_over(self) -> bool:
        # An empty call stays open until more is known: it may be the one that the limit cut.
        return self.is_declared_done and self.length > 0

    def blocks(self) -> bool:
        verdict = self.verdict()
        if self.is_declared_done:
            return verdict == "cut"
        return verdict != "complete" or not self.name

    def opening(self) -> JSON:
        return {
            **self.fields,
            "type": "function_call",
            "call_id": self.call_id,
            "name": self.name,
        }

    def gathered(self) -> list[JSON]:
        text = self.text
        return [{"type": "response.function_call_arguments.delta", "delta": text}] if text else []

    def closing(self, status: str) -> JSON:
        return {**self.opening(), "arguments": self.text, "status": status}


class Foreign(Piece):
    """An item of a type that we do not know: passed as it is, with its own events."""

    __slots__ = ("events", "final", "item")

    def __init__(self, item: JSON) -> None:
        super().__init__({})
        self.item = item
        self.events: list[JSON] = []
        self.final: JSON | None = None

    def opening(self) -> JSON:
        return self.item

    def gathered(self) -> list[JSON]:
        return self.events

    def closing(self, status: str) -> JSON:
        if self.final is not None:
            return self.final
        return self.item if status == "completed" else {**self.item, "status": status}

    def is_over(self) -> bool:
        return self.final is not None

    def blocks(self) -> bool:
        return self.final is None
