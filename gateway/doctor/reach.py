"""Does everything stand where it should: gateway, WebSocket, model server, its API, its models?"""

from collections.abc import Mapping
from typing import Final

from gateway.agent.session import Page, Unreachable
from gateway.doctor.bench import Bench, broken, degraded, ok
from gateway.doctor.direct import Direct
from gateway.doctor.findings import Finding
from gateway.errors import GatewayError
from gateway.upstream.client import UpstreamClient

_PROXY: Final = "let the proxy pass on the headers Upgrade and Connection, with HTTP/1.1"
_MODEL_SERVER: Final = "does --upstream end in /v1, and is that a model server?"
_START: Final = "start it (responses-gateway serve), or name it with --url"


async def gateway(bench: Bench) -> Finding:
    """Something answers there, and it is the gateway."""
    name = "gateway"
    try:
        page = await bench.agent.get(f"{bench.agent.root}/healthz")
    except Unreachable as error:
        return broken(name, "gateway", f"nothing answers at {bench.agent.root}: {error}", _START)
    bench.server = page.headers.get("server", "")
    if not isinstance(page.body, dict) or page.body.get("status") != "ok":
        reason = f"what answers at {bench.agent.root} is not the gateway (HTTP {page.status}{_what(page)})"
        return broken(name, "client", reason, "correct --url, or the proxy's routes")
    models = await bench.agent.get(f"{bench.agent.url}/models")
    if models.status in (401, 403):
        reason = f"the gateway asks for a key (HTTP {models.status})"
        return broken(name, "client", reason, "name the variable that holds one: --key-env NAME")
    return ok(name, f"it answers at {bench.agent.root}")


async def websocket(bench: Bench) -> Finding:
    """An upgrade goes through."""
    name = "websocket"
    try:
        async with await bench.agent.connect():
            return ok(name, "an upgrade goes through")
    except Unreachable as error:
        reason = f"no WebSocket: {error}; Codex goes on over HTTP, after some tries"
        return degraded(name, "between", reason, _PROXY)


async def upstream(bench: Bench) -> Finding:
    """The model server answers the gateway, and us."""
    name = "upstream"
    page = await bench.agent.get(f"{bench.agent.root}/readyz")
    body = page.body if isinstance(page.body, dict) else {}
    bench.facts = body.get("upstream") or {}
    url = str(bench.facts.get("url") or "")
    if page.status != 200:
        status = str(body.get("status") or f"HTTP {page.status} from /readyz")
        if "store" in status:
            return broken(
                name, "gateway", status, "see --store: the disk may be full or the database away"
            )
        if bench.facts and not url:
            return broken(
                name,
                "gateway",
                "it has no model server",
                "start it with --upstream http://HOST:PORT/v1",
            )
        where = f" at {url}" if url else ""
        advice = "start the model server, or correct --upstream"
        return broken(name, "upstream", f"{status}{where}", advice)
    if not bench.facts:
        return ok(name, "it answers (the gateway tells its address on its own machine only)")
    bench.direct, bench.is_locked = await _direct(bench.facts, url, bench.upstream_key)
    past = "" if bench.direct else "; it cannot be asked past the gateway (see --upstream-key-env)"
    return ok(name, f"{url}, profile {bench.facts['profile']}: {bench.facts['how']}{past}")


async def _direct(facts: Mapping[str, object], url: str, key: str) -> tuple[Direct | None, bool]:
    """A way past the gateway, where its server takes our key or none; and whether it wants another."""
    client = UpstreamClient(url, key, idle_timeout=60.0)
    try:
        status = (await client.get_json(f"{url}/models"))[0]
    except GatewayError:
        status = 0
    if status in (0, 401, 403):
        await client.close()
        return None, status != 0
    return Direct(client, str(facts["api"]), ""), False


async def api(bench: Bench) -> Finding:
    """The model server has the route that the gateway asks."""
    name = "api"
    spoken = str(bench.facts.get("api") or "")
    if bench.direct is None:
        return ok(name, f"the gateway asks by {spoken or 'an API that it does not tell'}")
    other = "responses" if spoken == "chat" else "chat"
    plain = await bench.direct.route(spoken)
    if plain.text.startswith("<"):
        reason = f"the model server answers with a page of HTML (HTTP {plain.status})"
        return broken(name, "upstream", reason, _MODEL_SERVER)
    if plain.status not in (404, 405):
        return ok(name, f"the model server has the API that it is asked by: {spoken}")
    if (await bench.direct.route(other)).status in (404, 405):
        reason = "the model server has neither /chat/completions nor /responses there"
        return broken(name, "upstream", reason, _MODEL_SERVER)
    reason = f"the model server does not have the API {spoken!r}, but {other!r}"
    return broken(name, "gateway", reason, f"start the gateway with --upstream-api {other}")


async def models(bench: Bench) -> Finding:
    """There is a model, and it is the one that was asked for."""
    name = "models"
    page = await bench.agent.get(f"{bench.agent.url}/models")
    data = page.body.get("data") if isinstance(page.body, dict) else None
    if not isinstance(data, list):
        reason = f"no list of models came (HTTP {page.status}{_what(page)})"
        return broken(name, "between", reason, "let the proxy pass /v1/models on unchanged")
    known = [str(entry["id"]) for entry in data]
    bench.model = bench.wish or (known[0] if known else "")
    names = bench.facts.get("models") or {}
    if bench.direct is not None:
        bench.direct = bench.direct.of(str(names.get(bench.model, bench.model)))
    if not known and bench.is_locked:
        reason = "the model server lists no models to the gateway, and asks for a key"
        advice = "set upstream.api_key_env to a variable with a good key"
        return broken(name, "upstream", reason, advice)
    if not bench.model:
        reason = "the model server lists no models"
        return broken(name, "upstream", reason, "load one there, or name it with --model")
    if not known:
        return degraded(
            name, "upstream", "the model server lists no models", "Codex has to be told its name"
        )
    if bench.model not in known:
        reason = f"{bench.model!r} is not among the models: {', '.join(known[:5])}"
        return degraded(name, "client", reason, "name one of these with --model")
    return ok(name, f"{len(known)}, of which {bench.model} is asked")


def _what(page: Page) -> str:
    if "html" in page.headers.get("content-type", ""):
        return ", a page of HTML"
    return "" if page.body is not None else ", no JSON"
