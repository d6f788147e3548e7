"""Each kind of tool: is it called, and does the call come back as that kind?"""

from collections.abc import Callable
from typing import Any, Final

from gateway.agent import samples
from gateway.agent.session import Outcome
from gateway.doctor.bench import Bench, broken, calls_of, degraded, ok
from gateway.doctor.findings import Finding
from gateway.grammar.load import load_grammar
from gateway.wire.json import JSON, MalformedJSON, loads

_BUG: Final = "this is a bug: report it with the output of doctor --json"


async def function_call(bench: Bench) -> Finding:
    """The kind that every model server knows: the rest stands on it."""
    name = "function call"
    outcome = await bench.agent.ask(samples.function(bench.model))
    if outcome.error:
        return await bench.failed(name, outcome, [samples.WEATHER])
    calls = calls_of(outcome, "function_call")
    if not calls or calls[-1].get("status") == "incomplete":
        return await bench.no_call(name, outcome, samples.WEATHER)
    if not _is_object(calls[0]["arguments"]):
        reason = f"the arguments are no JSON object: {calls[0]['arguments'][:100]!r}"
        return degraded(
            name, "model", reason, "the client tells the model; a better model or parser helps"
        )
    return ok(name, f"{calls[0]['name']}({calls[0]['arguments']})")


async def custom_call(bench: Bench) -> Finding:
    """apply_patch, as Codex declares it."""

    def judge(item: JSON) -> Finding:
        verdict = load_grammar("lark", samples.PATCH_GRAMMAR).checker()
        verdict.feed(item["input"])
        found = verdict.finish()
        if found.kind == "valid":
            return ok("custom call", "the patch matches its grammar")
        reason = f"the patch does not match its grammar: {found.reason}"
        return degraded(
            "custom call",
            "model",
            reason,
            "Codex tells the model what is wrong; a better model helps",
        )

    return await _call(bench, "custom call", samples.patch, "custom_tool_call", judge)


async def grammar(bench: Bench) -> Finding:
    """Whether the model server keeps the model to a grammar that its history breaks."""
    name = "grammar"
    if not bench.facts.get("pattern"):
        return ok(name, "this server cannot be held to one; each call is checked as it streams")

    def judge(item: JSON) -> Finding:
        if load_grammar("regex", samples.DATE_PATTERN).matches(item["input"]):
            return ok(name, f"the model server keeps to it: {item['input']!r}")
        reason = f"the model server does not keep to it: {item['input'][:60]!r}"
        return degraded(
            name, "upstream", reason, "a newer server may; calls are checked all the same"
        )

    return await _call(bench, name, samples.constraint, "custom_tool_call", judge)


async def namespace(bench: Bench) -> Finding:
    """A tool of an MCP server."""

    def judge(item: JSON) -> Finding:
        found = (item.get("namespace"), item.get("name"))
        if found == ("mcp__weather", "get_forecast"):
            return ok("namespace", "the call came back with its name and namespace")
        return degraded("namespace", "model", f"a call to {found[1]!r}, which is no such tool")

    return await _call(bench, "namespace", samples.namespace, "function_call", judge)


async def tool_search(bench: Bench) -> Finding:
    """The search for tools that the client runs."""

    def judge(item: JSON) -> Finding:
        if item.get("execution") == "client" and isinstance(item.get("arguments"), dict):
            return ok("tool_search", f"it came back as a search: {item['arguments']}")
        return broken("tool_search", "gateway", "the search has no execution or no arguments", _BUG)

    return await _call(bench, "tool_search", samples.search, "tool_search_call", judge)


async def parallel_calls(bench: Bench) -> Finding:
    """Two calls in one answer."""
    name = "parallel calls"
    outcome = await bench.agent.ask(samples.parallel(bench.model))
    if outcome.error:
        return await bench.failed(name, outcome, [samples.WEATHER])
    calls = calls_of(outcome, "function_call")
    if len(calls) > 1:
        return ok(name, f"{len(calls)} in one answer")
    if not calls:
        return await bench.no_call(name, outcome, None)
    if bench.direct is not None:
        question = "What is the weather in Oslo and in Cairo? Ask for both at once."
        plain = await bench.direct.ask(
            question, [samples.WEATHER], tokens=samples.MAX_CALL_TOKENS, stream=True
        )
        if plain.calls > 1:
            reason = f"the model server makes {plain.calls} calls, one came through"
            return broken(name, "gateway", reason, _BUG)
    return degraded(name, "model", "one call at a time: it works, in more turns")


async def _call(
    bench: Bench,
    name: str,
    sample: Callable[[str], JSON],
    kind: str,
    judge: Callable[[JSON], Finding],
) -> Finding:
    """Ask for one kind of call and judge the first one that comes."""
    outcome = await bench.agent.ask(sample(bench.model))
    if outcome.error:
        return await bench.failed(name, outcome, [samples.WEATHER])
    calls = [item for item in calls_of(outcome, kind) if item.get("status") != "incomplete"]
    if calls:
        return judge(calls[0])
    if kind != "function_call" and (others := calls_of(outcome, "function_call")):
        return _other_kind(name, others[0], outcome)
    return await bench.no_call(name, outcome, None)


def _other_kind(name: str, item: JSON, outcome: Outcome) -> Finding:
    """A plain call where another kind was due: malformed ones stay what they were."""
    if item.get("status") == "incomplete":
        return degraded(name, "model", "the call was not finished")
    reason = (
        f"the call came back as a plain function_call: {item['name']}({item['arguments'][:60]})"
    )
    return degraded(
        name, "model", reason, "a malformed call stays one; tools.invalid decides for custom tools"
    )


def _is_object(text: Any) -> bool:
    try:
        return isinstance(loads(text), dict)
    except MalformedJSON:
        return False
