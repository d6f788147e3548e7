"""Faults set up on purpose, each with the finding that a doctor owes to it: what, how bad, whose fault."""

import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.app import Gateway
from gateway.codex.catalog import catalog
from gateway.codex.home import Home
from gateway.codex.setup import Wanted, v1
from gateway.config import Config, ServerConfig, StoreConfig, UpstreamConfig
from gateway.doctor.findings import EXIT_CODES, Finding, Report
from gateway.doctor.run import CHECKS, examine
from tests.doctor.model_server import HTML, MODEL, Proxy, Server, model_server

GOOD = Server()
PROSE = json.dumps({"input": "the first of June"})


def good_setup(home: Path, url: str) -> None:
    Home(home).write(Wanted(url=url, models=catalog([MODEL], {})))


def edited(old: str, new: str, name: str = "config.toml") -> Callable[[Path, str], None]:
    """A good setup, then one thing in it changed."""

    def setup(home: Path, url: str) -> None:
        good_setup(home, url)
        path = home / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return setup


def without(name: str) -> Callable[[Path, str], None]:
    def setup(home: Path, url: str) -> None:
        good_setup(home, url)
        home.joinpath(name).unlink()

    return setup


def bare(home: Path, url: str) -> None:
    """As people write it by hand, without a catalogue."""
    home.mkdir()
    home.joinpath("config.toml").write_text(
        f'[model_providers.g]\nname = "G"\nbase_url = "{url}"\nsupports_websockets = true\n'
    )


def nothing(home: Path, url: str) -> None:
    """Codex was never here."""


def stale(home: Path, url: str) -> None:
    Home(home).write(Wanted(url=url, models=catalog(["older"], {})))


def keyed(home: Path, url: str) -> None:
    Home(home).write(Wanted(url=url, models=catalog([MODEL], {}), key_env="NO_SUCH_KEY"))


@dataclass(frozen=True)
class Case:
    """A fault and the finding for it: (check, verdict, fault), words of its reason or advice."""

    expected: tuple[str, str, str]
    words: str
    server: Server = GOOD
    proxy: Proxy | None = None
    setup: Callable[[Path, str], None] = good_setup
    api: str = "chat"
    profile: str = "default"
    path: str = ""
    model: str = ""
    where: str = "gateway"
    asking: dict[str, Any] = field(default_factory=dict)


CASES: dict[str, Case] = {
    "gateway not running": Case(
        ("gateway", "broken", "gateway"), "responses-gateway serve", where="closed"
    ),
    "the url of something else": Case(
        ("gateway", "broken", "client"), "is not the gateway", where="upstream"
    ),
    "a web page where the gateway should be": Case(
        ("gateway", "broken", "client"), "a page of HTML", proxy=Proxy(html=True)
    ),
    "no url at all": Case(("gateway", "broken", "gateway"), "no URL", where="nonsense"),
    "the gateway wants a key": Case(
        ("gateway", "broken", "client"), "--key-env", proxy=Proxy(wants_key=True)
    ),
    "gateway with no upstream": Case(
        ("upstream", "broken", "gateway"), "--upstream http://", path="none"
    ),
    "model server not running": Case(
        ("upstream", "broken", "upstream"), "start the model server", path="closed"
    ),
    "wrong path in the upstream's url": Case(
        ("api", "broken", "upstream"), "neither /chat/completions nor /responses", path="/wrong"
    ),
    "model server answers HTML": Case(
        ("api", "broken", "upstream"), "page of HTML", server=Server(html=True)
    ),
    "chat-only server asked by responses": Case(
        ("api", "broken", "gateway"), "--upstream-api chat", api="responses"
    ),
    "models list empty": Case(
        ("models", "broken", "upstream"), "--model", server=Server(models=())
    ),
    "model name unknown": Case(("answer", "broken", "client"), "--model", model="nobody"),
    "model name not in the list": Case(
        ("models", "degraded", "client"),
        "'nobody' is not among",
        model="nobody",
        server=Server(takes_any_name=True),
    ),
    "bad key": Case(
        ("answer", "broken", "upstream"), "api_key_env", server=Server(key="k", open_list=True)
    ),
    "bad key, list and all": Case(
        ("models", "broken", "upstream"), "asks for a key", server=Server(key="k")
    ),
    "model server fails": Case(
        ("answer", "broken", "upstream"), "out of memory", server=Server(fails=True)
    ),
    "answer broken off": Case(
        ("answer", "broken", "upstream"), "broke", server=Server(breaks_off=True)
    ),
    "model server hangs": Case(
        ("answer", "broken", "upstream"),
        "stuck",
        server=Server(hangs=True),
        asking={"seconds": 0.5},
    ),
    "slow first token": Case(
        ("first token", "degraded", "upstream"), "the first piece", asking={"slow_seconds": 0.01}
    ),
    "no streaming": Case(
        ("streaming", "degraded", "upstream"), "does not stream", server=Server(streams=False)
    ),
    "whole answer held back": Case(
        ("streaming", "degraded", "upstream"), "whole answer", server=Server(holds_back=True)
    ),
    "proxy that buffers SSE": Case(
        ("streaming", "degraded", "between"), "proxy_buffering off", proxy=Proxy(buffers=True)
    ),
    "proxy that blocks WebSocket": Case(
        ("websocket", "degraded", "between"), "Upgrade", proxy=Proxy(blocks_websocket=True)
    ),
    "thoughts in the answer": Case(
        ("reasoning", "degraded", "upstream"), "think_tags", server=Server(thinks_aloud=True)
    ),
    "server that drops tools": Case(
        ("function call", "broken", "upstream"), "drops them", server=Server(drops_tools=True)
    ),
    "server without tool parser": Case(
        ("function call", "broken", "upstream"), "--tool-call-parser", server=Server(leaks=True)
    ),
    "model that does not call": Case(
        ("function call", "degraded", "model"), "did not call", server=Server(never_calls=True)
    ),
    "truncated calls": Case(
        ("function call", "broken", "upstream"), "cut off", server=Server(cuts=True)
    ),
    "arguments that are no object": Case(
        ("function call", "degraded", "model"), "no JSON object", server=Server(arguments="7")
    ),
    "parallel calls lost": Case(
        ("parallel calls", "degraded", "model"), "one call at a time", server=Server(one_call=True)
    ),
    "a patch in the wrong form": Case(
        ("custom call", "degraded", "model"),
        "line 1",
        server=Server(arguments=PROSE, only="apply_patch"),
    ),
    "a grammar that is not kept": Case(
        ("grammar", "degraded", "upstream"),
        "does not keep to it",
        profile="llamacpp",
        server=Server(arguments=PROSE, only="set_date"),
    ),
    "a search without arguments": Case(
        ("tool_search", "degraded", "model"),
        "plain function_call",
        server=Server(arguments="7", only="tool_search"),
    ),
    "context too small": Case(
        ("context", "broken", "upstream"), "4096 tokens", server=Server(window=4096)
    ),
    "context rather small": Case(
        ("context", "degraded", "upstream"), "8192 tokens", server=Server(window=8192)
    ),
    "context too small, and not told": Case(
        ("context", "broken", "upstream"),
        "do not fit",
        server=Server(window=None, refuse_above=15_000),
    ),
    "broken Codex config": Case(
        ("codex setup", "broken", "client"), "no TOML", setup=edited("wire_api =", "wire_api")
    ),
    "Codex config pointing elsewhere": Case(
        ("codex setup", "broken", "client"),
        "points at",
        setup=edited('base_url = "http', 'base_url = "https'),
    ),
    "Codex not set up": Case(("codex setup", "degraded", "client"), "codex --write", setup=nothing),
    "catalogue missing": Case(
        ("codex setup", "broken", "client"), "missing", setup=without("gateway-models.json")
    ),
    "catalogue damaged": Case(
        ("codex setup", "broken", "client"),
        "damaged",
        setup=edited('"models"', '"model"', "gateway-models.json"),
    ),
    "catalogue of other models": Case(
        ("codex setup", "degraded", "client"), "does not know", setup=stale
    ),
    "no catalogue": Case(
        ("codex setup", "degraded", "client"), "neither apply_patch nor tool_search", setup=bare
    ),
    "Codex without WebSocket": Case(
        ("codex setup", "degraded", "client"),
        "supports_websockets = true",
        setup=edited("supports_websockets = true", "supports_websockets = false"),
    ),
    "Codex asked by chat": Case(
        ("codex setup", "broken", "client"), "wire_api", setup=edited('"responses"', '"chat"')
    ),
    "Codex's key is not set": Case(
        ("codex setup", "broken", "client"), "export NO_SUCH_KEY", setup=keyed
    ),
}


def closed_url() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


@contextlib.asynccontextmanager
async def built(case: Case) -> AsyncIterator[str]:
    """The URL that the doctor is given."""
    async with contextlib.AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(model_server(case.server))
        behind = {"none": "", "closed": f"{closed_url()}/v1", "": upstream}.get(
            case.path, upstream.removesuffix("/v1") + case.path
        )
        config = Config(
            server=ServerConfig(port=0, shutdown_seconds=0.2),
            upstream=UpstreamConfig(url=behind, api=case.api, profile=case.profile),  # type: ignore[arg-type]  # a row's text
            store=StoreConfig(url="memory"),
        )
        gateway = await stack.enter_async_context(Gateway(config))
        url = gateway.url
        if case.proxy is not None:
            url = await stack.enter_async_context(case.proxy.before(url))
        places = {"closed": closed_url(), "upstream": upstream, "nonsense": "ht tp:/x"}
        yield v1(places.get(case.where, url))


async def report_on(case: Case, home: Path) -> Report:
    async with built(case) as url:
        case.setup(home, url)
        environ = {"CODEX_HOME": str(home)}
        return await examine(url, environ, model=case.model, **case.asking)


def finding(report: Report, check: str) -> Finding:
    (found,) = [row for row in report.findings if row.check == check]
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_each_fault_has_its_finding(tmp_path: Path, case: Case) -> None:
    report = await report_on(case, tmp_path / "codex")
    check, verdict, fault = case.expected
    found = finding(report, check)
    assert (found.verdict, found.fault) == (verdict, fault), found
    assert case.words in f"{found.reason} {found.advice}"
    assert HTML not in found.reason
    assert EXIT_CODES[report.verdict] >= EXIT_CODES[found.verdict]
    # Nothing else is accused of what this one has done.
    assert [f for f in report.findings if f.verdict == "broken" and f.check != check] == []


async def test_where_all_is_well_all_is_ok(tmp_path: Path) -> None:
    report = await report_on(Case(("", "", ""), ""), tmp_path / "codex")
    assert {
        row.check: (row.verdict, row.reason) for row in report.findings if row.verdict != "ok"
    } == {}
    assert [row.check for row in report.findings] == [
        *(name for name, _, _ in CHECKS),
        "codex setup",
    ]
    assert report.verdict == "ok"
    assert report.summary == "All is well."


async def test_what_stands_on_something_broken_is_not_tried(tmp_path: Path) -> None:
    report = await report_on(CASES["model server not running"], tmp_path / "codex")
    assert finding(report, "upstream").verdict == "broken"
    assert finding(report, "function call").verdict == "skipped"
    assert "the model server" in report.summary


async def test_a_gateway_that_does_not_tell_its_upstream_is_examined_all_the_same(
    tmp_path: Path,
) -> None:
    case = Case(("", "", ""), "", proxy=Proxy())
    report = await report_on(case, tmp_path / "codex")
    assert report.verdict == "ok"
