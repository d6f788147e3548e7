"""Which server is that? Asks an upstream once, and knows it by its answers; never fails hard.

The signs stand in the profiles' `detect` tables; what they cannot tell is asked by the small
requests of `QUESTIONS`. Strongest first: host, `owned_by`, `Server` header, a question, port.
Nothing here opens a connection: `Getter` does (`upstream/client.py`).
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, cast
from urllib.parse import urlsplit

from gateway.errors import GatewayError
from gateway.upstream.profiles import Profile, load_profile, profile_names

log = logging.getLogger(__name__)

# Where local servers listen when nobody says otherwise: Ollama, llama.cpp, vLLM, LM Studio, SGLang.
USUAL_PORTS = (11434, 8080, 8000, 1234, 30000)
# A server on this machine answers /v1/models in milliseconds; nobody waits longer for a guess.
DISCOVER_SECONDS = 1.0
# A server behind a network, loading or busy; start must not hang on it.
IDENTIFY_SECONDS = 5.0

DialectName = Literal["chat", "responses"]
# What can go wrong while asking; the answer is then "not reachable", never an error.
UNREACHABLE = (GatewayError, OSError, TimeoutError)


class Getter(Protocol):
    """The one thing that probing needs of the client."""

    async def get_json(self, url: str) -> tuple[int, Mapping[str, str], Any]:
        """(status, headers, decoded body or None) of a GET of that whole URL."""
        ...


@dataclass(frozen=True)
class Question:
    """A GET below the server's root; a JSON object with `key` in it tells the profile."""

    path: str
    key: str
    profile: str


# In this order, because /version is also known to proxies and says least.
QUESTIONS = (
    Question("/props", "default_generation_settings", "llamacpp"),  # upstreams.md: xllamacpp, rec
    Question("/api/version", "version", "ollama"),
    Question("/get_model_info", "model_path", "sglang"),
    Question("/api/v0/models", "data", "lmstudio"),
    Question("/version", "version", "vllm"),
)
# Fields of a /v1/models entry that tell how many tokens fit: vLLM, OpenRouter, Groq, Mistral.
WINDOW_FIELDS = ("max_model_len", "context_length", "context_window", "max_context_length")


@dataclass(frozen=True)
class Found:
    """What is known of an upstream.

    Attributes:
        dialect: the API that will be spoken.
        profile: name of its profile.
        models: ids from /v1/models, in its order.
        how: the sign that decided, for people.
        reachable: it answered at all; otherwise it is asked again.
        windows: model id -> context size in tokens, where the server tells.
    """

    dialect: DialectName
    profile: str
    models: tuple[str, ...]
    how: str
    reachable: bool
    windows: Mapping[str, int]


@dataclass(frozen=True)
class Discovered:
    """A model server on one of the usual ports."""

    url: str
    models: tuple[str, ...]
    profile: str


async def discover(get: Getter, ports: Sequence[int] = USUAL_PORTS) -> list[Discovered]:
    """The model servers of this machine, asked in parallel, in the order of `ports`."""
    answers = await asyncio.gather(*(_models_on(get, port) for port in ports))
    return [answer for answer in answers if answer is not None]


async def _models_on(get: Getter, port: int) -> Discovered | None:
    url = f"http://127.0.0.1:{port}/v1"
    answer = await _ask(get, f"{url}/models", DISCOVER_SECONDS)
    if answer is None or not _is_model_list(answer[2]):
        return None
    _, headers, body = answer
    name, _ = _by_signs(url, headers, body) or _by_port(url) or ("default", "")
    return Discovered(url, _model_ids(body), name)


async def identify(get: Getter, url: str, api: str = "auto", profile: str = "auto") -> Found:
    """Ask the server at `url` (which ends in /v1) what it is.

    Args:
        get: the client of that upstream.
        url: its base URL.
        api: `chat` or `responses` when the user has said so, else `auto`.
        profile: a profile's name when the user has said so, else `auto`.

    Raises:
        ValueError: an unknown `profile`. Nothing else: a server that is away has the default one.
    """
    answer = await _ask(get, f"{url}/models", IDENTIFY_SECONDS)
    headers: Mapping[str, str] = answer[1] if answer else {}
    body = answer[2] if answer else None
    if profile != "auto":
        name, how = load_profile(profile).name, "as configured"
    else:
        name, how = await _which_profile(get, url, headers, body, reachable=answer is not None)
    dialect, reason = await _which_dialect(get, url, api, name, asking=answer is not None)
    found = Found(
        dialect=dialect,
        profile=name,
        models=_model_ids(body),
        how=f"{how}{reason}",
        reachable=answer is not None,
        windows=dict(_windows(body)),
    )
    if answer is None:
        log.warning("upstream %s does not answer; assuming %s over %s", url, name, dialect)
    else:
        log.info("upstream %s: %s over %s (%s)", url, name, dialect, found.how)
    return found


class Prober:
    """Remembers what `identify` found; asks again, turn by turn, while the server is away."""

    def __init__(self, get: Getter, url: str, api: str = "auto", profile: str = "auto") -> None:
        self._get = get
        self._url = url
        self._api = api
        self._profile = profile
        self._found: Found | None = None
        self._asking = asyncio.Lock()

    async def found(self) -> Found:
        """What is known now; a request to the server only until it has answered once."""
        async with self._asking:
            if self._found is None or not self._found.reachable:
                self._found = await identify(self._get, self._url, self._api, self._profile)
            return self._found


async def _which_profile(
    get: Getter, url: str, headers: Mapping[str, str], body: Any, *, reachable: bool
) -> tuple[str, str]:
    """(profile, how it was known); the weaker signs only when the stronger are silent."""
    if sign := _by_signs(url, headers, body):
        return sign
    if reachable and (sign := await _by_questions(get, url)):
        return sign
    if sign := _by_port(url):
        return sign
    return "default", "nothing known tells what it is" if reachable else "it does not answer"


async def _which_dialect(
    get: Getter, url: str, api: str, profile: str, *, asking: bool
) -> tuple[DialectName, str]:
    """Chat unless told otherwise, or unless there is no chat route at all.

    A GET tells: 405 means that the route is there. A 404 to both (llama.cpp) tells nothing.
    """
    if api in ("chat", "responses"):
        return cast(DialectName, api), ""
    if profile != "default" or not asking:
        return load_profile(profile).dialect, ""
    chat, responses = await asyncio.gather(
        _ask(get, f"{url}/chat/completions", IDENTIFY_SECONDS),
        _ask(get, f"{url}/responses", IDENTIFY_SECONDS),
    )
    if chat and responses and chat[0] == 404 and responses[0] != 404:
        return "responses", "; it has no /chat/completions"
    return "chat", ""


async def _by_questions(get: Getter, url: str) -> tuple[str, str] | None:
    root = url.rstrip("/").removesuffix("/v1")
    answers = await asyncio.gather(
        *(_ask(get, root + question.path, IDENTIFY_SECONDS) for question in QUESTIONS)
    )
    for question, answer in zip(QUESTIONS, answers, strict=True):
        body = answer[2] if answer and answer[0] == 200 else None
        if isinstance(body, dict) and question.key in body:
            return question.profile, f"GET {question.path} has {question.key!r}"
    return None


def _by_signs(url: str, headers: Mapping[str, str], body: Any) -> tuple[str, str] | None:
    """The profile whose `detect` table knows the host, a model's owner or the Server header."""
    host = (urlsplit(url).hostname or "").lower()
    server = next((v for k, v in headers.items() if k.lower() == "server"), "").lower()
    owners = {str(entry.get("owned_by", "")).lower() for entry in _entries(body)}
    profiles = list(_profiles())
    for profile in profiles:
        if any(host == known or host.endswith(f".{known}") for known in profile.detect.hosts):
            return profile.name, f"host {host}"
    for profile in profiles:
        for owner in owners.intersection(profile.detect.owned_by):
            return profile.name, f"owned_by {owner!r}"
    for profile in profiles:
        if any(known in server for known in profile.detect.server):
            return profile.name, f"Server: {server}"
    return None


def _by_port(url: str) -> tuple[str, str] | None:
    port = urlsplit(url).port
    for profile in _profiles():
        if port in profile.detect.ports:
            return profile.name, f"port {port}"
    return None


def _profiles() -> Iterator[Profile]:
    return (load_profile(name) for name in profile_names())


async def _ask(get: Getter, path: str, seconds: float) -> tuple[int, Mapping[str, str], Any] | None:
    try:
        async with asyncio.timeout(seconds):
            return await get.get_json(path)
    except UNREACHABLE as error:
        log.debug("GET %s: %s", path, error)
        return None


def _is_model_list(body: Any) -> bool:
    return isinstance(body, dict) and isinstance(body.get("data"), list)


def _entries(body: Any) -> list[dict[str, Any]]:
    data = body["data"] if _is_model_list(body) else []
    return [entry for entry in data if isinstance(entry, dict)]


def _model_ids(body: Any) -> tuple[str, ...]:
    return tuple(entry["id"] for entry in _entries(body) if isinstance(entry.get("id"), str))


def _windows(body: Any) -> Iterator[tuple[str, int]]:
    for entry in _entries(body):
        meta = entry.get("meta")
        # llama.cpp keeps it in `meta`.
        sizes = [meta.get("n_ctx")] if isinstance(meta, dict) else []
        sizes += [entry.get(field) for field in WINDOW_FIELDS]
        size = next((size for size in sizes if isinstance(size, int) and size > 0), None)
        if size is not None and isinstance(entry.get("id"), str):
            yield entry["id"], size
