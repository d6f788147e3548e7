"""The input items that we know: what each must hold, by its `type`.

A table, not a schema: only what the rooms above rely on is required, and types that are not listed
are let through, since whether a server can carry them is for its dialect to say.
"""

from typing import Any

from gateway.wire.checks import (
    Check,
    anything,
    array,
    by_type,
    fields,
    filled,
    missing,
    nullable,
    one_of,
    record,
    string,
    string_or,
)

ROLES = ("assistant", "system", "developer", "user")

# `text` is what Chat Completions calls a text part: clients that speak both send it.
# The last four are checked by nobody here; a dialect that cannot carry one refuses it by name.
CONTENT_PARTS: dict[str, Check] = {
    "input_text": fields({"text": string}),
    "input_image": fields({}, {"image_url": string, "file_id": string, "detail": string}),
    "input_file": fields(
        {}, {"file_id": string, "file_url": string, "file_data": string, "filename": string}
    ),
    "output_text": fields({"text": string}),
    "refusal": fields({"refusal": string}),
    "text": fields({"text": string}),
    "input_audio": anything,
    "reasoning_text": anything,
    "summary_text": anything,
    "computer_screenshot": anything,
}

_content = string_or(array(by_type(CONTENT_PARTS)))
# A part of reasoning that has no text to read passes.
_thoughts = array(fields({}, {"text": string}), of="an array of objects")

# Declarations inside items may repeat and conflict without being an error (tool search, additional
# tools); the tool table decides. They only must be recognisable.
_loose_tools = array(fields({"type": string}), of="an array of objects")

_OUTPUT = fields({"call_id": filled, "output": _content}, {"id": string, "status": string})

_message = fields(
    {"role": one_of(*ROLES), "content": _content},
    {"id": string, "status": string, "phase": string},
)

ITEMS: dict[str, Check] = {
    "message": _message,
    # Models do make calls without a name; the client sends back what it was given.
    "function_call": fields(
        {"call_id": filled, "name": string, "arguments": string},
        {"id": string, "namespace": string, "status": string},
    ),
    "function_call_output": _OUTPUT,
    "custom_tool_call": fields(
        {"call_id": filled, "name": filled, "input": string},
        {"id": string, "namespace": string, "status": string},
    ),
    "custom_tool_call_output": _OUTPUT,
    # Malformed searches stay on the wire and load nothing: only the shape of the item is checked.
    "tool_search_call": fields(
        {"arguments": anything},
        {"id": string, "call_id": string, "execution": string, "status": string},
    ),
    "tool_search_output": fields(
        {"tools": array(anything, of="an array of objects")},
        {"id": string, "call_id": string, "execution": string, "status": string},
    ),
    "additional_tools": fields({"tools": _loose_tools}, {"id": string, "role": string}),
    "reasoning": fields(
        {"summary": _thoughts},
        {"id": string, "content": _thoughts, "encrypted_content": string, "status": string},
    ),
    "compaction": fields({"encrypted_content": string}, {"id": string}),
    "compaction_summary": fields({"encrypted_content": string}, {"id": string}),  # older Codex
    "context_compaction": fields({}, {"id": string, "encrypted_content": string}),
    "compaction_trigger": fields({}, {"id": string}),
    "item_reference": fields({"id": filled}),
}

_typed_item = by_type(ITEMS, open_ended=True)


def check_item(item: Any, path: str) -> None:
    """One input item. Without a `type` it is a message if it has a role (the API's short form)."""
    record(item, path)
    if "type" in item:
        _typed_item(item, path)
    elif "role" in item:
        _message(item, path)
    else:
        raise missing(f"{path}.type")


check_input = nullable(string_or(array(check_item)))
