"""One public request becomes one lowered request: history expanded, tools tabled, calls paired, items lowered."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct, structs

from gateway.tools.choice import Chosen, lower_choice
from gateway.tools.options import ToolOptions
from gateway.tools.table import ToolTable
from gateway.turn import compaction
from gateway.turn.cutting import drop_oldest, split, tokens
from gateway.turn.history import History
from gateway.turn.lowering import lower_steps
from gateway.turn.pairing import pair
from gateway.turn.thread import Thread
from gateway.wire.json import JSON

# What a client may say about the generation itself. The dialect keeps what its server knows (profile.fields).
PASSED_FIELDS: Final = (
    "temperature",
    "top_p",
    "max_output_tokens",
    "reasoning",
    "text",
    "top_logprobs",
    "user",
    "metadata",
    "service_tier",
    "prompt_cache_key",
    "truncation",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
)


# What the client wants of its answer says nothing about a summary.
_OF_THE_ANSWER: Final = frozenset({"max_output_tokens", "text", "stop"})


class Prepared(Struct, frozen=True):
    """A request that is ready to be sent.

    Attributes:
        lowered: what the dialect encodes.
        new_items: the input of this turn alone, public form.
        thread: the lowered conversation with its tool table.
        public_tools: the echo.
        chosen: which of them go upstream.
        plan: set when the model is asked for a summary: of everything, or before it answers.
    """

    lowered: JSON
    new_items: list[JSON]
    thread: Thread
    public_tools: list[JSON]
    chosen: Chosen
    plan: compaction.Plan | None = None

    @property
    def table(self) -> ToolTable:
        """The tools, for the way back."""
        return self.thread.table

    def unconstrained(self) -> JSON | None:
        """The lowered request without the patterns of grammars; None when it has none."""
        tools = [*self.table.lower(self.chosen.rows, constrain=False), *self.chosen.hosted]
        if not tools or tools == self.lowered.get("tools"):
            return None
        return {**self.lowered, "tools": tools}

    def shortened(self) -> "Prepared | None":
        """The same request for a summary, of a part; None when there is no part, or nothing to summarise."""
        kept = None if self.plan is None else drop_oldest(self.plan.head)
        if kept is None:
            return None
        lowered = lower_steps(pair(kept).steps, self.table, compaction.PENDING)
        changed = {**self.lowered, "input": [*lowered, compaction.question()]}
        return structs.replace(self, lowered=changed)


class Lowering(Struct, frozen=True):
    """What configuration and profile say.

    Attributes:
        tools: see `ToolOptions`.
        model: the upstream's name of the model.
        sealer: opens compaction items.
    """

    tools: ToolOptions
    model: str
    sealer: compaction.Sealer = compaction.NO_SEALER


class TurnOptions(Struct, frozen=True):
    """What profile and configuration say about a turn.

    Attributes:
        tools: see `ToolOptions`.
        model: the upstream's name of the model, None for the request's own.
        sealer: seals and opens compaction items.
    """

    tools: ToolOptions = ToolOptions()
    model: str | None = None
    sealer: compaction.Sealer = compaction.NO_SEALER

    def lowering(self, request: JSON) -> Lowering:
        """What holds for this request."""
        return Lowering(self.tools, self.model or request["model"], self.sealer)


def prepare(request: JSON, history: History, how: Lowering) -> Prepared:
    """Lowers a checked request.

    Args:
        request: the public request.
        history: what `previous_response_id` stands for; empty when the request has none.
        how: see `Lowering`.

    Raises:
        RequestError: an orphan output, an unanswered pending call, a choice of a tool that is not there, …
    """
    new_items = history.new_items(request)
    if compaction.is_compaction(new_items):
        items = _expanded(history, new_items[:-1], how)
        return _summary(request, items, None, new_items[:-1], how)
    thread = _thread(request, history, new_items, how)
    thread.check(history.pending)
    chosen = lower_choice(request.get("tool_choice"), thread.table)
    lowered = _lower(request, thread, how, chosen, PASSED_FIELDS)
    lowered["input"] = thread.lowered()
    limit = _threshold(request)
    if limit is not None and tokens(lowered) > limit:
        parts = split(_expanded(history, new_items, how), limit)
        if parts is not None:
            return _summary(request, *parts, new_items, how)
    return Prepared(
        lowered=lowered,
        new_items=new_items,
        thread=thread,
        public_tools=thread.table.public_tools(request.get("tools") or []),
        chosen=chosen,
    )


def _expanded(history: History, new_items: list[JSON], how: Lowering) -> list[JSON]:
    items = [*history.items, *new_items]
    return compaction.expand(items, how.sealer, len(history.items))


def _thread(request: JSON, history: History, new_items: list[JSON], how: Lowering) -> Thread:
    """The conversation as it was lowered before, with what is new; else all of it anew."""
    tools: list[JSON] = request.get("tools") or []
    thread = history.grown.take() if history.grown is not None else None
    if thread is not None:
        fresh = [*history.items[thread.count :], *new_items]
        if thread.grow(tools, fresh, how.tools):
            return thread
    count = len(history.items) + len(new_items)
    return Thread(tools, _expanded(history, new_items, how), how.tools, count=count)


def _summary(
    request: JSON,
    head: list[JSON],
    tail: list[JSON] | None,
    new_items: list[JSON],
    how: Lowering,
) -> Prepared:
    tools: list[JSON] = request.get("tools") or []
    thread = Thread(tools, head, how.tools, unanswered=compaction.PENDING)
    fields = [name for name in PASSED_FIELDS if name not in _OF_THE_ANSWER]
    chosen = lower_choice("none", thread.table)
    lowered = _lower(request, thread, how, chosen, fields)
    lowered["input"] = [*thread.lowered(), compaction.question()]
    return Prepared(
        lowered=lowered,
        new_items=new_items,
        thread=thread,
        public_tools=thread.table.public_tools(tools),
        chosen=chosen,
        plan=compaction.plan(head, thread.table, thread.unanswered(), tail=tail),
    )


def _lower(
    request: JSON, thread: Thread, how: Lowering, chosen: Chosen, fields: Iterable[str]
) -> JSON:
    """Everything but the input, which comes last."""
    lowered: JSON = {"model": how.model, "stream": bool(request.get("stream"))}
    lowered |= {key: request[key] for key in fields if request.get(key) is not None}
    if request.get("instructions"):
        lowered["instructions"] = request["instructions"]
    declarations = [*thread.table.lower(chosen.rows), *chosen.hosted]
    if declarations:
        lowered["tools"] = declarations
        lowered["tool_choice"] = chosen.tool_choice
        if isinstance(request.get("parallel_tool_calls"), bool):
            lowered["parallel_tool_calls"] = request["parallel_tool_calls"]
    return lowered


def _threshold(request: JSON) -> int | None:
    """The `compact_threshold` of `context_management`, in tokens."""
    for entry in request.get("context_management") or []:
        if entry.get("type") == "compaction" and entry.get("compact_threshold") is not None:
            return int(entry["compact_threshold"])
    return None
