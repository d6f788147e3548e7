"""What a model server says when it refuses or fails: any shape becomes one `UpstreamError`.

Shapes (Q6, Q7): `error` as an object or a string, a flat object, FastAPI's `detail`, plain text,
HTML, nothing at all; codes as integers or words. The words for a full context window differ by
server and are a table (Q58): agents compact their history at `context_length_exceeded`.
"""

import html
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from gateway.errors import UpstreamError
from gateway.upstream.framing import decode
from gateway.upstream.profiles import Profile
from gateway.wire.json import JSON, MalformedJSON, dumps_str

# vLLM's union dump has up to 240 lines; the first ones name the field at fault.
MAX_MESSAGE_LINES = 6
# A page of HTML or a stack of text is no message: enough to recognise it.
MAX_MESSAGE_CHARS = 2000
# What Groq's model wrote instead of a call may be a whole patch.
MAX_FAILED_GENERATION_CHARS = 1000

CONTEXT = "context_length_exceeded"


class Fault(NamedTuple):
    """What an error object says. `code` is a word or None, never a number."""

    message: str
    code: str | None = None
    type: str | None = None
    param: str | None = None


# Wordings -> code. Searched in message, code and type together, case-insensitively.
_WORDINGS: tuple[tuple[str, str], ...] = (
    # llama.cpp [rec chat-25], its code; OpenAI, ds4 (as a code); LiteLLM [rec resp-32]
    (r"exceeds? the available context size|exceed_context_size", CONTEXT),
    (
        r"context_length_exceeded|ContextWindowExceeded|exceeds? the context (window|length)",
        CONTEXT,
    ),
    # vLLM [rec chat-25], SGLang, DeepSeek, Mistral
    (r"maximum context length|model'?s context length|max(imum)? context (length|window)", CONTEXT),
    (r"exceeds? .{0,40}(model'?s? )?context (length|window|size)", CONTEXT),
    # Anthropic, Ollama, TGI, Gemini, Moonshot, DashScope, Groq, LM Studio
    (r"prompt (is )?too long|input (is )?too long|too many (input )?tokens", CONTEXT),
    (r"inputs`? tokens? \+ `?max_new_tokens|must have less than \d+ tokens", CONTEXT),
    (r"token count .{0,40}exceeds the maximum number of tokens", CONTEXT),
    (r"exceeded model token limit|range of input length should be", CONTEXT),
    (r"reduce the length of the (messages|input|prompt)|context the overflows", CONTEXT),
    (r"(greater|longer) than the (model'?s )?context length", CONTEXT),
    # vLLM [rec chat-24], OpenAI
    (r"the model .{1,200} does not exist|invalid model name|model_not_found", "model_not_found"),
)
_TABLE = tuple((re.compile(words, re.IGNORECASE | re.DOTALL), code) for words, code in _WORDINGS)

# Codes and types where the server names none.
_STATUS_CODES = {429: "rate_limit_exceeded"}
_STATUS_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

_KEPT_HEADERS = ("Retry-After", "Retry-After-Ms")
_find_title = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL).search


def read_error(
    profile: Profile, status: int, headers: Mapping[str, str], body: bytes
) -> UpstreamError:
    """The error for an answer that is none: its status, code and Retry-After survive."""
    text = body.decode("utf-8-sig", "replace").strip()
    fault = read_text(text or f"The upstream answered HTTP {status} with an empty body.")
    code = fault.code or _STATUS_CODES.get(status)
    message = fault.message
    if code == CONTEXT:
        status = 400
    elif status in (401, 403):
        message = (
            f"The upstream model server ({profile.name}) refused the gateway's own key or "
            f"permissions (HTTP {status}): {message}"
        )
    elif status < 400:
        status = 502  # no status of an error: a redirect, or an error that came with 200
    low = {name.lower(): value for name, value in headers.items()}
    kept = {name: low[name.lower()] for name in _KEPT_HEADERS if name.lower() in low}
    return UpstreamError(
        message,
        status=status,
        code=code,
        type="invalid_request_error" if code == CONTEXT else fault.type or _type_of(status),
        param=fault.param,
        headers=kept,
    )


def find_error(payload: JSON) -> Any:
    """The error inside a payload of an answer, or None: `error`, SGLang's flat object, `detail`."""
    error = payload.get("error")
    if error:
        # OpenAI's `error` event has its fields beside the type; others nest them.
        return error
    if payload.get("object") == "error" or payload.get("type") == "error":
        return payload
    return payload.get("detail")


def read_fault(error: Any) -> Fault:
    """An error in any shape, put into words (Q6, Q7)."""
    if isinstance(error, dict):
        return _read_object(error)
    message = _plain(error) or "The upstream reported an error without a message."
    return Fault(_shorten(message), _word_for(message))


def read_text(text: str) -> Fault:
    """A whole body that is no answer: JSON, HTML or plain words."""
    if text.startswith("<"):
        title = _find_title(text)
        name = " ".join(html.unescape(title.group(1)).split()) if title else "no title"
        return Fault(f"The upstream answered HTML ({_shorten(name)}).")
    try:
        payload = decode(text)
    except MalformedJSON:
        return read_fault(text)
    if isinstance(payload, dict):
        return read_fault(find_error(payload) or payload)
    return read_fault(payload)


def _read_object(error: JSON) -> Fault:
    inner = error.get("error")
    if isinstance(inner, dict) and not error.get("message"):
        return _read_object(inner)
    message = next(
        (text for key in ("message", "detail", "msg", "error") if (text := _plain(error.get(key)))),
        "",
    )
    code, kind, param = error.get("code"), error.get("type"), error.get("param")
    word = code if isinstance(code, str) and not code.isdigit() else None
    kind = kind if isinstance(kind, str) and kind not in ("", "error") else None
    found = _word_for(" ".join(filter(None, (message, word, kind))))
    if not message:
        message = f"The upstream reported an error without a message: {dumps_str(error)}"
    generation = error.get("failed_generation")
    message = _shorten(message)
    if isinstance(generation, str) and generation:  # Groq: what the model wrote (litellm#40566)
        shown = generation[:MAX_FAILED_GENERATION_CHARS]
        message = f"{message} The model had written: {shown}"
    return Fault(message, found or word, kind, param if isinstance(param, str) else None)


def _plain(value: Any) -> str:
    """A message's text; FastAPI's `detail` may be a list of complaints."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return "; ".join(filter(None, map(_complaint, value)))
    return "" if value is None or value is False else dumps_str(value)


def _complaint(entry: Any) -> str:
    if not isinstance(entry, dict) or not isinstance(entry.get("msg"), str):
        return _plain(entry)
    place = entry.get("loc")
    where = ".".join(map(str, place)) if isinstance(place, list) else ""
    return f"{where}: {entry['msg']}" if where else str(entry["msg"])


def _word_for(text: str) -> str | None:
    return next((code for wording, code in _TABLE if wording.search(text)), None)


def _shorten(message: str) -> str:
    lines = message.splitlines()
    if len(lines) > MAX_MESSAGE_LINES + 1:
        rest = len(lines) - MAX_MESSAGE_LINES
        message = "\n".join([*lines[:MAX_MESSAGE_LINES], f"… ({rest} more lines)"])
    if len(message) > MAX_MESSAGE_CHARS:
        message = message[:MAX_MESSAGE_CHARS] + " … [truncated]"
    return message


def _type_of(status: int) -> str:
    if status >= 500:
        return "server_error"
    return _STATUS_TYPES.get(status, "invalid_request_error")
