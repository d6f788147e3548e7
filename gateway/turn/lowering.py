"""A public history becomes the lowered one: messages, function calls, their outputs, reasoning. Nothing else goes up.

A rule about one tool kind is in that kind's file in tools/; this one only knows which file to ask. Items of unknown
types go on as they are: whether they can be carried is the dialect's decision, made with words.
"""

from collections.abc import Callable
from typing import Any, Final

from gateway.tools import custom, function, search
from gateway.tools.table import ToolTable
from gateway.turn.pairing import ABORTED, Answer, LateOutput, Paired, PairedCall, Step
from gateway.wire.json import JSON

# The client's own bookkeeping on items; upstreams refuse what they do not know (transformers serve, ds4: Q44, Q61).
_PRIVATE_KEYS: Final = frozenset(
    {"id", "status", "phase", "internal_chat_message_metadata_passthrough"}
)


def lower_items(paired: Paired, table: ToolTable) -> list[JSON]:
    """Lowers a paired history, in order. Never changes an item in place."""
    return lower_steps(paired.steps, table)


def lower_steps(steps: list[Step], table: ToolTable, unanswered: str = ABORTED) -> list[JSON]:
    """Lowers a part of a paired history.

    Args:
        steps: of `Pairing`.
        table: of the whole history.
        unanswered: what stands in the place of an output that never came.
    """
    lowered: list[JSON] = []
    for step in steps:
        lowered.extend(_lower_step(step, table, unanswered))
    return lowered


def _lower_step(step: Step, table: ToolTable, unanswered: str) -> list[JSON]:
    if isinstance(step, PairedCall):
        return [_lower_call(step, table)]
    if isinstance(step, Answer):
        return [_lower_answer(step.call, table, unanswered)]
    if isinstance(step, LateOutput):
        return [_late_message(step)]
    return _OTHER.get(str(step.get("type")), _lower_unknown)(step)


def _lower_call(call: PairedCall, table: ToolTable) -> JSON:
    item = {**call.item, "call_id": call.upstream_id}
    if item["type"] == "tool_search_call":
        return search.lower_call(item, table.search_name())
    name = table.upstream_name(item.get("namespace"), item["name"])
    if item["type"] == "custom_tool_call":
        return custom.lower_call(item, name)
    return function.lower_call(item, name)


def _lower_answer(call: PairedCall, table: ToolTable, unanswered: str) -> JSON:
    call_id = call.upstream_id
    if not call.outputs:
        return {"type": "function_call_output", "call_id": call_id, "output": unanswered}
    if call.item["type"] == "tool_search_call":
        loaded = table.loaded.get(call.item["call_id"], [])
        return search.lower_output({**call.outputs[0], "call_id": call_id}, loaded)
    output = merge_outputs([item["output"] for item in call.outputs])
    return function.lower_output({"call_id": call_id, "output": output})


def merge_outputs(outputs: list[Any]) -> Any:
    """Several outputs of one call as one: text joined by line ends, parts one after the other.

    Args:
        outputs: each a string or a list of parts, at least one.
    """
    if len(outputs) == 1:
        return outputs[0]
    if all(isinstance(output, str) for output in outputs):
        return "\n".join(outputs)
    return [part for output in outputs for part in _parts(output)]


def _parts(output: Any) -> list[JSON]:
    return [{"type": "input_text", "text": output}] if isinstance(output, str) else output


def _late_message(late: LateOutput) -> JSON:
    call = late.call.item
    label = f"[further output of {call['name']}, call {call['call_id']}]"
    head: JSON = {"type": "input_text", "text": label}
    return {"type": "message", "role": "user", "content": [head, *_parts(late.output["output"])]}


def _lower_message(item: JSON) -> list[JSON]:
    return [{"type": "message", "role": item["role"], "content": item["content"]}]


def _lower_reasoning(item: JSON) -> list[JSON]:
    """Text only: an `encrypted_content` is somebody else's, or would be read by the model as text (Q62)."""
    kept = {key: item[key] for key in ("summary", "content") if item.get(key)}
    return [{"type": "reasoning", "summary": [], **kept}] if kept else []


def _lower_nothing(item: JSON) -> list[JSON]:
    return []


def _lower_unknown(item: JSON) -> list[JSON]:
    return [{key: value for key, value in item.items() if key not in _PRIVATE_KEYS}]


_OTHER: Final[dict[str, Callable[[JSON], list[JSON]]]] = {
    "message": _lower_message,
    "reasoning": _lower_reasoning,
    # Its tools are rows of the table; as a message it would be 20 kB of noise (upstreams.md section 8).
    "additional_tools": _lower_nothing,
}
