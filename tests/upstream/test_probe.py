"""Every server family is known by its own answers; one that is away never stops the gateway."""

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from gateway.errors import UpstreamError
from gateway.upstream.probe import Prober, discover, identify

JSON = dict[str, Any]


def models(*ids: str, owned_by: str = "", **extra: Any) -> JSON:
    entries = [
        {"id": i, "object": "model", "created": 0, "owned_by": owned_by, **extra} for i in ids
    ]
    return {"object": "list", "data": entries}


class HttpGetter:
    """Real requests; keeps what was asked."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.asked: list[str] = []

    async def get_json(self, url: str) -> tuple[int, Mapping[str, str], Any]:
        self.asked.append(url)
        async with self.session.get(url) as response:
            raw = await response.read()
            with contextlib.suppress(ValueError):
                return response.status, response.headers, json.loads(raw)
            return response.status, response.headers, None


@contextlib.asynccontextmanager
async def server(
    answers: Mapping[str, Any], *, header: str = "uvicorn", posts: tuple[str, ...] = ()
) -> AsyncIterator[str]:
    """A model server that answers these GETs; `posts` are routes that a GET meets with 405."""

    async def handle(request: web.Request) -> web.Response:
        headers = {"Server": header}
        if request.path in answers:
            answer = answers[request.path]
            if isinstance(answer, int):
                return web.json_response({"error": "no"}, status=answer, headers=headers)
            if isinstance(answer, str):
                return web.Response(text=answer, headers=headers)
            return web.json_response(answer, headers=headers)
        status = 405 if request.path in posts else 404
        return web.json_response({"detail": "no"}, status=status, headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    finally:
        await runner.cleanup()


@pytest.fixture
async def get() -> AsyncIterator[HttpGetter]:
    async with aiohttp.ClientSession() as session:
        yield HttpGetter(session)


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


LLAMACPP_MODELS = {
    "models": [{"name": "smollm2-135m", "type": "model"}],
    "object": "list",
    "data": [
        {"id": "smollm2-135m", "owned_by": "llamacpp", "meta": {"n_ctx": 2048, "n_ctx_train": 8192}}
    ],
}

# server family -> its answers, its Server header, the profile it must get, a word of the reason
FAMILIES: dict[str, tuple[JSON, str, str, str]] = {
    "llama.cpp": ({"/v1/models": LLAMACPP_MODELS}, "llama.cpp", "llamacpp", "owned_by 'llamacpp'"),
    "llama.cpp behind a proxy": (
        {"/v1/models": models("m"), "/props": {"default_generation_settings": {}}},
        "nginx",
        "llamacpp",
        "GET /props",
    ),
    "llama.cpp, only its header": ({"/v1/models": models("m")}, "llama.cpp", "llamacpp", "Server"),
    "vLLM": (
        {
            "/v1/models": models("qwen", owned_by="vllm", max_model_len=4096),
            "/version": {"version": "0.33.0"},
        },
        "uvicorn",
        "vllm",
        "owned_by 'vllm'",
    ),
    "vLLM with a renamed owner": (
        {"/v1/models": models("qwen", owned_by="acme"), "/version": {"version": "0.33.0"}},
        "uvicorn",
        "vllm",
        "GET /version",
    ),
    "SGLang": ({"/v1/models": models("q", owned_by="sglang")}, "uvicorn", "sglang", "owned_by"),
    "SGLang, by a question": (
        {"/v1/models": models("q"), "/get_model_info": {"model_path": "/models/q"}},
        "uvicorn",
        "sglang",
        "GET /get_model_info",
    ),
    "Ollama": ({"/v1/models": models("qwen3:8b", owned_by="library")}, "", "ollama", "owned_by"),
    "Ollama with a user's model": (
        {"/v1/models": models("me/m", owned_by="me"), "/api/version": {"version": "0.32.1"}},
        "",
        "ollama",
        "GET /api/version",
    ),
    "Ollama with no model": (
        {"/v1/models": {"object": "list", "data": None}, "/api/version": {"version": "0.32.1"}},
        "",
        "ollama",
        "GET /api/version",
    ),
    "LM Studio": (
        {"/v1/models": models("qwen", owned_by="organization_owner")},
        "",
        "lmstudio",
        "owned_by",
    ),
    "LM Studio, by a question": (
        {"/v1/models": models("qwen"), "/api/v0/models": {"object": "list", "data": []}},
        "",
        "lmstudio",
        "GET /api/v0/models",
    ),
    "ds4": ({"/v1/models": models("ds4", owned_by="ds4")}, "", "ds4", "owned_by"),
    "transformers serve": (
        {"/v1/models": models("/models/smollm2", owned_by="local")},
        "uvicorn",
        "transformers",
        "owned_by 'local'",
    ),
    "mlx-lm": ({"/v1/models": models("m")}, "BaseHTTP/0.6 Python/3.12.1", "mlx", "Server"),
    "LiteLLM": (
        {"/v1/models": models("a", "b", owned_by="openai")},
        "",
        "default",
        "nothing known",
    ),
}


@pytest.mark.parametrize("family", FAMILIES)
async def test_a_family_is_known_by_its_answers(family: str, get: HttpGetter) -> None:
    answers, header, profile, reason = FAMILIES[family]
    async with server(answers, header=header) as url:
        found = await identify(get, url)
    assert found.profile == profile
    assert found.dialect == "chat"
    assert found.reachable
    assert reason in found.how


async def test_models_and_windows_are_taken_over(get: HttpGetter) -> None:
    async with server({"/v1/models": LLAMACPP_MODELS}) as url:
        found = await identify(get, url)
    assert found.models == ("smollm2-135m",)
    assert found.windows == {"smollm2-135m": 2048}
    listed = models("a", "b", context_length=131072)
    async with server({"/v1/models": listed}) as url:
        found = await identify(get, url)
    assert found.models == ("a", "b")
    assert found.windows == {"a": 131072, "b": 131072}


async def test_a_known_server_is_asked_once(get: HttpGetter) -> None:
    async with server({"/v1/models": models("q", owned_by="vllm")}) as url:
        await identify(get, url)
    assert get.asked == [f"{url}/models"]


async def test_a_named_profile_and_api_win_over_every_sign(get: HttpGetter) -> None:
    async with server({"/v1/models": models("q", owned_by="vllm")}) as url:
        found = await identify(get, url, api="responses", profile="sglang")
    assert (found.dialect, found.profile, found.how) == ("responses", "sglang", "as configured")
    assert found.models == ("q",)
    assert get.asked == [f"{url}/models"]


async def test_an_unknown_profile_is_the_users_mistake(get: HttpGetter) -> None:
    with pytest.raises(ValueError, match="vllm"):
        await identify(get, f"http://127.0.0.1:{closed_port()}/v1", profile="vlm")


async def test_responses_when_there_is_no_chat_route(get: HttpGetter) -> None:
    async with server({"/v1/models": models("m")}, posts=("/v1/responses",)) as url:
        found = await identify(get, url)
    assert (found.dialect, found.profile) == ("responses", "default")
    assert "no /chat/completions" in found.how


@pytest.mark.parametrize(
    "posts", [("/v1/responses", "/v1/chat/completions"), ("/v1/chat/completions",), ()]
)
async def test_chat_in_every_other_case(get: HttpGetter, posts: tuple[str, ...]) -> None:
    async with server({"/v1/models": models("m")}, posts=posts) as url:
        assert (await identify(get, url)).dialect == "chat"


@pytest.mark.parametrize(
    "answer", [401, 404, 500, "<html>not a model server</html>", [], {"data": 1}]
)
async def test_a_server_without_a_list_of_models_is_the_default(
    get: HttpGetter, answer: Any
) -> None:
    async with server({"/v1/models": answer}) as url:
        found = await identify(get, url)
    assert (found.profile, found.dialect, found.models) == ("default", "chat", ())
    assert found.reachable


class FakeGetter:
    """Answers by URL; a missing one is unreachable."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[str] = []

    async def get_json(self, url: str) -> tuple[int, Mapping[str, str], Any]:
        self.asked.append(url)
        if url not in self.answers:
            raise UpstreamError("connection refused")
        return 200, {}, self.answers[url]


@pytest.mark.parametrize(
    ("url", "profile", "dialect"),
    [
        ("https://api.deepseek.com/v1", "deepseek", "chat"),
        ("https://api.openai.com/v1", "openai", "responses"),
        ("https://my.openai.azure.com/openai/v1", "openai", "responses"),
        ("https://openrouter.ai/api/v1", "openrouter", "chat"),
        ("https://api.groq.com/openai/v1", "groq", "chat"),
        ("https://notapi.groq.com.example/v1", "default", "chat"),
    ],
)
async def test_a_hosted_api_is_known_by_its_host_even_when_away(
    url: str, profile: str, dialect: str
) -> None:
    found = await identify(FakeGetter({}), url)
    assert (found.profile, found.dialect) == (profile, dialect)


@pytest.mark.parametrize(
    ("port", "profile"),
    [(11434, "ollama"), (8080, "llamacpp"), (8000, "vllm"), (1234, "lmstudio"), (30000, "sglang")],
)
async def test_the_port_is_the_last_guess(port: int, profile: str) -> None:
    url = f"http://10.0.0.1:{port}/v1"
    found = await identify(FakeGetter({f"{url}/models": models("m")}), url)
    assert (found.profile, found.how) == (profile, f"port {port}")


async def test_an_unreachable_server_is_the_default_and_the_log_says_so(
    get: HttpGetter, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"http://127.0.0.1:{closed_port()}/v1"
    with caplog.at_level(logging.WARNING, logger="gateway.upstream.probe"):
        found = await identify(get, url)
    assert (found.profile, found.dialect, found.reachable) == ("default", "chat", False)
    assert f"upstream {url} does not answer; assuming default over chat" in caplog.text


async def test_the_prober_asks_again_until_there_is_an_answer() -> None:
    url = "http://127.0.0.1:9/v1"
    get = FakeGetter({})
    prober = Prober(get, url)
    assert not (await prober.found()).reachable
    get.answers[f"{url}/models"] = models("q", owned_by="vllm")
    assert (await prober.found()).profile == "vllm"
    asked = len(get.asked)
    assert (await prober.found()).profile == "vllm"
    assert len(get.asked) == asked


async def test_turns_that_begin_together_ask_once() -> None:
    url = "http://127.0.0.1:9/v1"
    get = FakeGetter({f"{url}/models": models("q", owned_by="vllm")})
    prober = Prober(get, url)
    first, second = await asyncio.gather(prober.found(), prober.found())
    assert first is second
    assert get.asked == [f"{url}/models"]


class SilentGetter:
    async def get_json(self, url: str) -> tuple[int, Mapping[str, str], Any]:
        return await asyncio.Event().wait(), {}, None


async def test_a_silent_server_does_not_hold_up_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.upstream.probe.IDENTIFY_SECONDS", 0.01)
    monkeypatch.setattr("gateway.upstream.probe.DISCOVER_SECONDS", 0.01)
    found = await identify(SilentGetter(), "http://127.0.0.1:9/v1")
    assert not found.reachable
    assert await discover(SilentGetter()) == []


async def test_discover_finds_the_model_servers_among_the_ports(get: HttpGetter) -> None:
    async with (
        server({"/v1/models": models("qwen3:8b", owned_by="library")}) as ollama,
        server({"/v1/models": "<html>a shop</html>"}) as shop,
        server({"/v1/models": models("q", owned_by="vllm")}) as vllm,
    ):
        ports = [int(url.split(":")[2].split("/")[0]) for url in (ollama, shop, vllm)]
        found = await discover(get, [ports[2], closed_port(), ports[1], ports[0]])
    assert [(one.url, one.models, one.profile) for one in found] == [
        (vllm, ("q",), "vllm"),
        (ollama, ("qwen3:8b",), "ollama"),
    ]
