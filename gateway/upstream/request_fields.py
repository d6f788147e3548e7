"""Top-level request fields: what the client asked for, in the words that one server knows (Q44).

Harmless fields that a server does not know are left out. A field that changes what the answer means
(an output format) is refused instead.
"""

from gateway.errors import RequestError
from gateway.upstream.profiles import Profile
from gateway.wire.json import JSON

# Fields of one name and one meaning on both APIs.
SHARED_FIELDS = (
    "temperature",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "stop",
    "seed",
    "user",
    "metadata",
    "service_tier",
    "prompt_cache_key",
)

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def shared_fields(lowered: JSON, profile: Profile) -> JSON:
    """The fields that need no translation, in a fixed order."""
    allowed = profile.fields
    return {
        name: lowered[name]
        for name in SHARED_FIELDS
        if name in allowed and lowered.get(name) is not None
    }


def chat_fields(lowered: JSON, profile: Profile) -> JSON:
    """Generation fields of /chat/completions.

    Raises:
        RequestError: an output format that the server does not have.
    """
    fields = shared_fields(lowered, profile)
    if lowered.get("max_output_tokens") is not None:
        fields[profile.max_tokens_field] = lowered["max_output_tokens"]
    effort = nearest_effort((lowered.get("reasoning") or {}).get("effort"), profile)
    if effort is not None and "reasoning_effort" in profile.fields:
        fields["reasoning_effort"] = effort
    text = lowered.get("text") or {}
    if text.get("verbosity") is not None and "verbosity" in profile.fields:
        fields["verbosity"] = text["verbosity"]
    logprobs = lowered.get("top_logprobs")
    if logprobs and "logprobs" in profile.fields:
        fields["logprobs"] = True
        fields["top_logprobs"] = logprobs
    format = output_format(lowered, profile)
    if format is not None:
        fields["response_format"] = _chat_format(format)
    return fields


def responses_fields(lowered: JSON, profile: Profile) -> JSON:
    """Generation fields of /responses.

    Raises:
        RequestError: an output format that the server does not have.
    """
    fields = shared_fields(lowered, profile)
    for name in ("max_output_tokens", "top_logprobs", "truncation"):
        allowed = name == "max_output_tokens" or name in profile.fields
        if allowed and lowered.get(name) is not None:
            fields[name] = lowered[name]
    reasoning = lowered.get("reasoning")
    if reasoning and "reasoning" in profile.fields:
        effort = nearest_effort(reasoning.get("effort"), profile)
        chosen = {"effort": effort, "summary": reasoning.get("summary")}
        fields["reasoning"] = {key: value for key, value in chosen.items() if value is not None}
    text: JSON = {}
    format = output_format(lowered, profile)
    if format is not None:
        text["format"] = format
    verbosity = (lowered.get("text") or {}).get("verbosity")
    if verbosity is not None and "verbosity" in profile.fields:
        text["verbosity"] = verbosity
    if text:
        fields["text"] = text
    if "store" in profile.fields:
        fields["store"] = False  # what is kept is kept here
    if "include" in profile.fields and "encrypted_content" in profile.item_fields:
        fields["include"] = ["reasoning.encrypted_content"]
    return fields


def output_format(lowered: JSON, profile: Profile) -> JSON | None:
    """`text.format` unless it is plain text.

    Raises:
        RequestError: the server does not have it; answering in free text would mislead.
    """
    format: JSON | None = (lowered.get("text") or {}).get("format")
    if format is None or format.get("type") == "text":
        return None
    if format.get("type") not in profile.response_formats:
        known = ", ".join(("text", *profile.response_formats))
        raise RequestError(
            f"Output format '{format.get('type')}' is not supported by this model server. "
            f"Supported: {known}.",
            param="text.format.type",
            code="unsupported_value",
        )
    return format


def _chat_format(format: JSON) -> JSON:
    """The Responses API keeps name, schema and strict flat; chat nests them."""
    if format["type"] != "json_schema":
        return {"type": format["type"]}
    keys = ("name", "description", "schema", "strict")
    schema = {key: format[key] for key in keys if format.get(key) is not None}
    return {"type": "json_schema", "json_schema": schema}


def nearest_effort(effort: object, profile: Profile) -> str | None:
    """The effort that the server knows and that is nearest; None = leave the field out.

    `none` is only itself: the least thinking of a server that always thinks is not what it means.
    """
    if effort in profile.efforts:
        return str(effort)
    known = [name for name in profile.efforts if name in EFFORTS[1:]]
    if effort not in EFFORTS[1:] or not known:
        return None
    place = EFFORTS.index(str(effort))
    return min(known, key=lambda name: abs(EFFORTS.index(name) - place))
