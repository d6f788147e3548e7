"""One public request becomes one lowered request: history expanded, tools tabled, calls paired, items lowered."""

from typing import Final

from msgspec import Struct

from gateway.tools.choice import lower_choice
from gateway.tools.table import ToolOptions, ToolTable
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
        notes: what was left out, for the log.
    """

    lowered: JSON
    new_items: list[JSON]
    items: list[JSON]
    table: ToolTable
    public_tools: list[JSON]
    notes: list[str]


def prepare(request: JSON, history: History, options: ToolOptions, model: str) -> Prepared:
    """Lowers a checked request.

    Args:
        request: the public request.
        history: what `previous_response_id` stands for; empty when the request has none.
        options: what profile and configuration say about tools.
        model: the upstream's name of the model.

    Raises:
        RequestError: an orphan output, an unanswered pending call, a choice of a tool that is not there, …
    """
    new_items = history.new_items(request)
    items = [*history.items, *new_items]
    tools: list[JSON] = request.get("tools") or []
    table = ToolTable.build(tools, items, options)
    paired = pair(items, history.pending)
    chosen = lower_choice(request.get("tool_choice"), table)
    lowered: JSON = {"model": model, "stream": bool(request.get("stream"))}
    lowered |= {key: request[key] for key in PASSED_FIELDS if request.get(key) is not None}
    if request.get("instructions"):
        lowered["instructions"] = request["instructions"]
    declarations = table.lower(chosen.rows)
    if declarations:
        lowered["tools"] = declarations
        if chosen.tool_choice is not None:
            lowered["tool_choice"] = chosen.tool_choice
        if isinstance(request.get("parallel_tool_calls"), bool):
            lowered["parallel_tool_calls"] = request["parallel_tool_calls"]
    lowered["input"] = lower_items(paired, table)
    return Prepared(
        lowered=lowered,
        new_items=new_items,
        items=items,
        table=table,
        public_tools=table.public_tools(tools),
        notes=[*table.notes, *paired.notes],
    )
