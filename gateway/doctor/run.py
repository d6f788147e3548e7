"""The order of the checks: one that stands on another which is broken is not tried."""

from collections.abc import Awaitable, Callable, Mapping

from gateway.agent.session import Agent
from gateway.doctor import answers, codex_setup, lasting, reach, tools
from gateway.doctor.bench import SLOW_SECONDS, TURN_SECONDS, Bench
from gateway.doctor.findings import Finding, Report

Check = Callable[[Bench], Awaitable[Finding]]
Tell = Callable[[str, Finding | None], None]

# Name, check, and what must not be broken for it to be tried.
CHECKS: tuple[tuple[str, Check, tuple[str, ...]], ...] = (
    ("gateway", reach.gateway, ()),
    ("websocket", reach.websocket, ("gateway",)),
    ("upstream", reach.upstream, ("gateway",)),
    ("api", reach.api, ("upstream",)),
    ("models", reach.models, ("api",)),
    ("answer", answers.answer, ("models",)),
    ("first token", answers.first_piece, ("answer",)),
    ("streaming", answers.streaming, ("answer",)),
    ("reasoning", answers.reasoning, ("answer",)),
    ("function call", tools.function_call, ("answer",)),
    ("custom call", tools.custom_call, ("function call",)),
    ("grammar", tools.grammar, ("function call",)),
    ("namespace", tools.namespace, ("function call",)),
    ("tool_search", tools.tool_search, ("function call",)),
    ("parallel calls", tools.parallel_calls, ("function call",)),
    ("continuation", lasting.continuation, ("websocket", "answer")),
    ("cancel", lasting.cancel, ("websocket", "answer")),
    ("context", answers.context, ("answer",)),
)


async def examine(
    url: str,
    environ: Mapping[str, str],
    *,
    model: str = "",
    key: str = "",
    upstream_key: str = "",
    seconds: float = TURN_SECONDS,
    slow_seconds: float = SLOW_SECONDS,
    tell: Tell = lambda name, finding: None,
) -> Report:
    """Run all checks.

    Args:
        url: the gateway, ending in /v1.
        environ: the environment, for Codex's home and its keys.
        model: the one to ask; "" takes the first.
        key: of the gateway.
        upstream_key: of the model server, for questions past the gateway.
        seconds: how long one turn may take.
        slow_seconds: a first piece after this time is slow.
        tell: hears of each check when it begins (None) and when it ends.
    """
    findings: dict[str, Finding] = {}
    async with Agent(url, key, seconds=seconds) as agent:
        bench = Bench(agent, wish=model, slow_seconds=slow_seconds, upstream_key=upstream_key)
        try:
            for name, check, needs in CHECKS:
                tell(name, None)
                findings[name] = await _one(name, check, needs, bench, findings)
                tell(name, findings[name])
        finally:
            if bench.direct is not None:
                await bench.direct.close()
    findings[codex_setup.NAME] = codex_setup.check(url, bench.model, environ)
    tell(codex_setup.NAME, findings[codex_setup.NAME])
    return Report(
        url=url,
        upstream=str(bench.facts.get("url") or ""),
        model=bench.model,
        findings=list(findings.values()),
    )


async def _one(
    name: str,
    check: Check,
    needs: tuple[str, ...],
    bench: Bench,
    findings: Mapping[str, Finding],
) -> Finding:
    for need in needs:
        found = findings[need]
        stands = found.verdict == "ok" or (found.verdict == "degraded" and need != "websocket")
        if not stands:
            return Finding(check=name, verdict="skipped", reason=f"not tried: see {need!r}")
    return await check(bench)
