"""What one model server can take and how it answers: a table row, never an `if` in the code.

A profile is a TOML file in `profiles/` that lists only what differs from the defaults of `Profile`.
The dialects, the client and the prober read it; nothing here knows a wire object.
"""

import difflib
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated, Any, Literal

import msgspec

Count = Annotated[int, msgspec.Meta(ge=0)]

# Q51: chat servers commonly cap function names at 64; the hash suffix of a cut name needs its room.
MIN_NAME_LENGTH = 24

# Q44: what recorded servers take; Codex's own extras (client_metadata, …) are not among them.
DEFAULT_FIELDS = (
    "temperature",
    "top_p",
    "stop",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "reasoning",
)


class Detect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Signs by which the prober knows a server, all lower case. Any one of them is a hint."""

    server: tuple[str, ...] = ()
    """Substrings of the `Server` response header."""
    owned_by: tuple[str, ...] = ()
    """Values of `owned_by` in the entries of `/v1/models`."""
    hosts: tuple[str, ...] = ()
    """Suffixes of the host in the upstream URL."""
    ports: tuple[int, ...] = ()
    """Default ports: the weakest sign, to order guesses by."""


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One model server's habits. The defaults are what every recorded server accepts."""

    name: str = "default"
    """The file's name without `.toml`."""
    dialect: Literal["chat", "responses"] = "chat"
    """The API spoken to this server when nothing else is asked for."""
    detect: Detect = Detect()
    """How the prober knows this server."""

    # --- messages
    system: Literal["merge", "keep", "user"] = "merge"
    """Leading system text: one message, as it came, or folded into the first user message (Q45)."""
    late_system: Literal["merge", "user", "keep"] = "user"
    """Later system text: moved to the front, a labelled user message, or left where it is (Q45)."""
    developer_role: bool = False
    """The server knows the role `developer`; else it is sent as `system` (Q45)."""
    alternate: bool = False
    """User and assistant must take turns: neighbours of one role are merged (Q48)."""
    after_tool: str = ""
    """Assistant text put between a tool message and a user message; empty = none (Q46, Mistral)."""
    continue_text: str = "Continue."
    """User text that closes a history that ends with the assistant or system; empty = none."""
    assistant_empty_content: Literal["null", "empty", "omit"] = "null"
    """`content` of an assistant message that has only calls (Q47)."""
    tool_content: Literal["string", "parts"] = "string"
    """Tool outputs: text only, images following as a user message, or parts as they are (Q49)."""
    images: bool = True
    """The server takes image parts."""
    files: bool = False
    """The server takes file parts."""
    call_id: Literal["keep", "alnum9"] = "keep"
    """`alnum9`: call ids are mapped to nine letters or digits (Q50)."""

    # --- reasoning
    reasoning_in: tuple[str, ...] = ("reasoning_content", "reasoning", "reasoning_details")
    """Fields of a chat delta that carry reasoning, the first one present wins (Q33, Q34)."""
    think_tags: bool = False
    """A leading `<think>…</think>` in the text is reasoning (Q33)."""
    reasoning_out: Literal["", "reasoning_content", "reasoning"] = ""
    """Field of an assistant message in which reasoning is sent back; empty = it is left out."""
    reasoning_placeholder: bool = False
    """Every assistant message carries `reasoning_out`, empty when there was none (DeepSeek)."""
    reasoning_items: Literal["text", "keep", "drop"] = "text"
    """Reasoning items to /responses: readable text only, as they came, or left out (Q62)."""

    # --- request fields
    fields: tuple[str, ...] = DEFAULT_FIELDS
    """Optional top-level fields that may be sent, by the upstream's own names (Q44)."""
    item_fields: tuple[str, ...] = ()
    """Optional fields of items that may be sent to /responses (`id`, `phase`, …) (Q61, Q62)."""
    instructions: Literal["field", "message"] = "field"
    """Where /responses takes the system text; some servers drop the field without a word."""
    efforts: tuple[str, ...] = ("low", "medium", "high")
    """Values of the reasoning effort that the server knows; others become the nearest one."""
    response_formats: tuple[str, ...] = ("json_object", "json_schema")
    """Output formats besides text; one that is not listed is refused, never dropped."""
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The chat field for `max_output_tokens`."""
    usage: bool = True
    """Streams are asked for usage by `stream_options.include_usage`."""
    stream: bool = True
    """The server can stream tool calls; else it is asked for a whole answer (issue row 49)."""

    # --- tools
    tool_choice: Literal["forward", "string", "auto", "omit"] = "forward"
    """As it is; only strings; only auto and none; never (Q55). A named tool is then sent alone."""
    parallel_tool_calls: bool = True
    """The field may be sent (Q56)."""
    strict: Literal["false", "omit", "keep"] = "false"
    """`strict` of a function: always explicit, never sent, or only when the client gave it (Q54)."""
    schema: Literal["keep", "moonshot", "plain"] = "keep"
    """The dialect of JSON Schema that parameters are rewritten to (Q53)."""
    name_max_length: Annotated[int, msgspec.Meta(ge=MIN_NAME_LENGTH)] = 64
    """Longest function name (Q51)."""
    name_first_letter: bool = False
    """A function name must begin with a letter (Q51)."""
    max_tools: Count = 128
    """Most functions in one request; 0 = no limit (Q52)."""
    pattern: bool = False
    """A JSON Schema `pattern` on tool arguments constrains what the model writes."""
    pattern_strict: bool = False
    """…only together with `strict: true`."""
    eager_deferred: bool = False
    """Deferred tools are sent at once, for models that never search (issue row 29)."""

    # --- what we do not translate
    hosted: Literal["drop", "pass", "reject"] = "drop"
    """Declarations of hosted tools (web_search, …)."""
    unknown_items: Literal["reject", "note", "pass"] = "reject"
    """Items of unknown types in a history; `pass` only reaches /responses."""

    # --- traffic
    concurrency: Count = 0
    """Most requests at a time; 0 = no limit (Q63)."""


def _folder() -> Traversable:
    return resources.files("gateway.upstream").joinpath("profiles")


@cache
def profile_names() -> tuple[str, ...]:
    """The profiles that ship with the gateway, sorted."""
    names = (entry.name for entry in _folder().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


@cache
def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(_folder().joinpath(f"{name}.toml").read_text(encoding="utf-8"))


def _nearest(word: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known)}."


def _check_keys(table: Mapping[str, Any], struct: type[msgspec.Struct], where: str) -> None:
    for key in table:
        if key not in struct.__struct_fields__:
            near = _nearest(key, struct.__struct_fields__)
            raise ValueError(f"Unknown key {key!r} in {where}. {near}")


def load_profile(name: str, overrides: Mapping[str, Any] | None = None) -> Profile:
    """The named profile with the user's own values laid over it.

    Raises:
        ValueError: an unknown profile or key (the nearest known one is named), or a bad value.
    """
    if name not in profile_names():
        raise ValueError(f"Unknown profile {name!r}. {_nearest(name, profile_names())}")
    own = dict(overrides or {})
    _check_keys(own, Profile, f"profile {name!r}")
    if isinstance(own.get("detect"), dict):
        _check_keys(own["detect"], Detect, f"profile {name!r}, table 'detect'")
    try:
        return msgspec.convert({"name": name, **_table(name), **own}, Profile)
    except msgspec.ValidationError as error:
        raise ValueError(f"Profile {name!r}: {error}") from error
