"""One public request becomes one lowered request: history expanded, tools tabled, calls paired, items lowered."""

from typing import Final

from msgspec import Struct

from gateway.tools.choice import Chosen, lower_choice
from gateway.tools.options import ToolOptions
from gateway.tools.table import ToolTable
from gateway.turn import compaction
from gateway.turn.history import History
from gateway.turn.lowering import lower_items
from gateway.turn.pairing import pair
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


class Prepared(Struct, frozen=True):
    """A request that is ready to be sent.

    Attributes:
        lowered: what the dialect encodes.
        new_items: the input of this turn alone, public form.
        items: the whole history with it.
        table: the tools, for the way back.
        public_tools: the echo.
        chosen: which of them go upstream.
        is_compaction: the model is asked for a summary.
        notes: what was left out, for the log.
    """

    lowered: JSON
    new_items: list[JSON]
    items: list[JSON]
    table: ToolTable
    public_tools: list[JSON]
    chosen: Chosen
    is_compaction: bool
    notes: list[str]

    def unconstrained(self) -> JSON | None:
        """The lowered request without the patterns of grammars; None when it has none."""
        tools = [*self.table.lower(self.chosen.rows, constrain=False), *self.chosen.hosted]
        if not tools or tools == self.lowered.get("tools"):
            return None
        return {**self.lowered, "tools": tools}


def prepare(
    request: JSON,
    history: History,
    options: ToolOptions,
    model: str,
    sealer: compaction.Sealer = compaction.NO_SEALER,
) -> Prepared:
    """Lowers a checked request.

    Args:
        request: the public request.
        history: what `previous_response_id` stands for; empty when the request has none.
        options: what profile and configuration say about tools.
        model: the upstream's name of the model.
        sealer: opens compaction items.

    Raises:
        RequestError: an orphan output, an unanswered pending call, a choice of a tool that is not there, …
    """
    new_items = history.new_items(request)
    is_compaction = compaction.is_compaction(new_items)
    if is_compaction:
        new_items = new_items[:-1]
    items = compaction.expand([*history.items, *new_items], sealer)
    tools: list[JSON] = request.get("tools") or []
    table = ToolTable.build(tools, items, options)
    paired = pair(items, frozenset() if is_compaction else history.pending)
    chosen = lower_choice("none" if is_compaction else request.get("tool_choice"), table)
    lowered: JSON = {"model": model, "stream": bool(request.get("stream"))}
    lowered |= {key: request[key] for key in PASSED_FIELDS if request.get(key) is not None}
    if request.get("instructions"):
        lowered["instructions"] = request["instructions"]
    declarations = [*table.lower(chosen.rows), *chosen.hosted]
    if declarations:
        lowered["tools"] = declarations
        lowered["tool_choice"] = chosen.tool_choice
        if isinstance(request.get("parallel_tool_calls"), bool):
            lowered["parallel_tool_calls"] = request["parallel_tool_calls"]
    lowered["input"] = lower_items(paired, table)
    if is_compaction:
        lowered["input"] = compaction.ask(lowered["input"])
    return Prepared(
        lowered=lowered,
        new_items=new_items,
        items=items,
        table=table,
        public_tools=table.public_tools(tools),
        chosen=chosen,
        is_compaction=is_compaction,
        notes=[*table.notes, *paired.notes],
    )
