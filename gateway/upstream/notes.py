"""Items of a history that no function-only server knows, put into plain messages.

Records of hosted calls become short labelled notes, so that a thread that holds one still works.
What has no row follows `profile.unknown_items`.
"""

from typing import Any

from gateway.errors import RequestError
from gateway.upstream.parts import TEXT_FIELDS
from gateway.upstream.profiles import Profile
from gateway.wire.json import JSON, dumps_str

# A note reminds the model of what happened. Results can be base64 images of megabytes, and a fake
# message of 21 kB made models hallucinate (HEXUXIU/M365-Copilot2API#8).
MAX_NOTE_CHARS = 4000
MAX_NOTE_STRING_CHARS = 1000

# What the model did is told as its own text, what came back as the user's: a model that reads results
# in its own text begins to write some itself.
NOTE_ROLES = {
    "web_search_call": "assistant",
    "file_search_call": "assistant",
    "code_interpreter_call": "assistant",
    "image_generation_call": "assistant",
    "computer_call": "assistant",
    "computer_call_output": "user",
    "local_shell_call": "assistant",
    "local_shell_call_output": "user",
    "shell_call": "assistant",
    "shell_call_output": "user",
    "apply_patch_call": "assistant",
    "apply_patch_call_output": "user",
    "mcp_call": "assistant",
    "mcp_list_tools": "user",
    "mcp_approval_request": "assistant",
    "mcp_approval_response": "user",
    "program": "assistant",
    "program_output": "user",
    "multi_agent_call": "assistant",
    "multi_agent_call_output": "user",
}

# Of no use to a model; ids and blobs would only cost tokens.
NOTE_OMITS = frozenset(
    ("id", "type", "encrypted_content", "fingerprint", "internal_chat_message_metadata_passthrough")
)


def translate_foreign(item: JSON, profile: Profile, *, can_pass: bool) -> JSON:
    """A message in place of an item that is none of message, call, output and reasoning.

    With `unknown_items = "pass"` it is given back as it is, if the API can carry it (`can_pass`).

    Raises:
        RequestError: the profile refuses items of that type.
    """
    kind = str(item.get("type"))
    if kind == "item_reference":
        raise RequestError(
            "Items of type 'item_reference' cannot be resolved here: the model server keeps no "
            "items. Send the item itself, or continue with previous_response_id.",
            param="input",
            code="invalid_value",
        )
    if can_pass and profile.unknown_items == "pass":
        return item
    if kind == "agent_message":
        return _agent_message(item)
    role = NOTE_ROLES.get(kind)
    if role is None:
        if profile.unknown_items != "note":
            raise RequestError(
                f"Items of type '{kind}' are not supported by this model server.",
                param="input",
                code="invalid_value",
            )
        role = "user"
    return {"type": "message", "role": role, "content": note(item)}


def note(item: JSON) -> str:
    """`[type] {json}`, short."""
    body = {key: _shorten(value) for key, value in item.items() if key not in NOTE_OMITS}
    return f"[{item.get('type')}] {_cut(dumps_str(body), MAX_NOTE_CHARS)}"


def _shorten(value: Any) -> Any:
    if isinstance(value, str):
        return _cut(value, MAX_NOTE_STRING_CHARS)
    if isinstance(value, list):
        return [_shorten(element) for element in value]
    if isinstance(value, dict):
        return {key: _shorten(element) for key, element in value.items()}
    return value


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… [{len(text) - limit} more characters]"


def _agent_message(item: JSON) -> JSON:
    """What a sub-agent of Codex says to another: the user's side of the conversation, with a label."""
    label = f"[Message from agent {item.get('author')} to {item.get('recipient')}]"
    content = item.get("content")
    if not isinstance(content, list):
        return {"type": "message", "role": "user", "content": f"{label}\n{content or ''}"}
    parts = [_readable(part) for part in content]
    label_part = {"type": "input_text", "text": label}
    return {"type": "message", "role": "user", "content": [label_part, *parts]}


def _readable(part: JSON) -> JSON:
    """Agents also send each other sealed parts; one of them must not end the thread."""
    if part.get("type") in TEXT_FIELDS or part.get("type") == "input_image":
        return part
    return {"type": "input_text", "text": f"[{part.get('type')} left out]"}
