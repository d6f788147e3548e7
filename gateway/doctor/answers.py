"""How an answer comes: at all, soon, piece by piece, with reasoning apart, and with room for a prompt."""

from collections.abc import Sequence
from typing import Final

from gateway.agent import samples
from gateway.doctor.bench import Bench, broken, degraded, ok
from gateway.doctor.findings import Finding

# Codex 0.171's first request has 5,400 to 6,100 tokens, before the user has said a word.
CODEX_TOKENS: Final = 6_100
# Below this Codex compacts every few turns.
ROOMY_TOKENS: Final = 16_384
# An answer that takes less time in all says nothing about how it comes.
TOO_FAST_SECONDS: Final = 0.15
# Pieces that come within this part of the whole time have been held back.
BURST_SHARE: Final = 0.1

_DELTAS: Final = (
    "response.output_text.delta",
    "response.reasoning_text.delta",
    "response.reasoning_summary_text.delta",
)


async def answer(bench: Bench) -> Finding:
    """A plain question over HTTP is answered."""
    bench.answer = await bench.agent.ask(samples.text(bench.model))
    if bench.answer.error or bench.answer.status != 200:
        return await bench.failed("answer", bench.answer)
    if not bench.answer.output:
        return degraded("answer", "model", "the answer is empty", "try another model")
    return ok("answer", f"{bench.answer.usage.get('output_tokens', 0)} tokens")


async def first_piece(bench: Bench) -> Finding:
    """How long one waits."""
    times = _times(bench)
    if not times:
        return ok("first token", "no text came that could be timed")
    if times[0] > bench.slow_seconds:
        reason = f"the first piece came after {times[0]:.1f} s"
        return degraded(
            "first token", "upstream", reason, "a smaller model, or more of it on the GPU"
        )
    return ok("first token", f"after {times[0]:.2f} s")


async def streaming(bench: Bench) -> Finding:
    """Whether the pieces come as they are made; if not, who holds them back."""
    name = "streaming"
    ours = _times(bench)
    if bench.answer.headers.get("content-type", "").partition(";")[0] != "text/event-stream":
        reason = "the answer is no event stream though one was asked for"
        return broken(name, "between", reason, "let the proxy pass the answer on unchanged")
    if bench.direct is not None:
        text = samples.text(bench.model)["input"][0]["content"][0]["text"]
        plain = await bench.direct.ask(text, [], tokens=samples.MAX_ANSWER_TOKENS, stream=True)
        if not plain.is_stream:
            reason = "the model server does not stream: it answers with one piece of JSON"
            return degraded(
                name,
                "upstream",
                reason,
                "turn streaming on there; long answers look dead till then",
            )
        if _is_burst(plain.pieces):
            reason = "the model server makes its whole answer before it sends any of it"
            return degraded(name, "upstream", reason, "look for a proxy before it that buffers")
        if _is_burst(ours):
            who = f" (it calls itself {bench.server!r})" if bench.server else ""
            reason = f"the model server streams, but all pieces came at once: a proxy buffers{who}"
            return degraded(
                name, "between", reason, "nginx: proxy_buffering off; caddy: flush_interval -1"
            )
    elif _is_burst(ours):
        reason = "all pieces came at once: the model server or a proxy holds them back"
        return degraded(
            name, "between", reason, "nginx: proxy_buffering off; caddy: flush_interval -1"
        )
    if not ours or ours[-1] < TOO_FAST_SECONDS:
        return ok(name, "too fast to tell, nothing speaks against it")
    return ok(name, f"{len(ours)} pieces over {ours[-1] - ours[0]:.2f} s")


async def reasoning(bench: Bench) -> Finding:
    """What a model thinks must not stand in its answer."""
    name = "reasoning"
    if "<think>" in bench.answer.text or "</think>" in bench.answer.text:
        reason = "the model's thoughts stand in its answer (<think>)"
        return degraded(
            name,
            "upstream",
            reason,
            "start it with a reasoning parser, or set [profile] think_tags = true",
        )
    if any(item["type"] == "reasoning" for item in bench.answer.output):
        return ok(name, "it comes as reasoning items")
    return ok(name, "this answer had none")


async def context(bench: Bench) -> Finding:
    """Room for what Codex sends first."""
    name = "context"
    window = (bench.facts.get("windows") or {}).get(bench.model)
    advice = "start the model server with a larger context (32768 is a good size)"
    if window is None:
        outcome = await bench.agent.ask(samples.long(bench.model, CODEX_TOKENS))
        if outcome.error.get("code") == "context_length_exceeded":
            reason = f"{CODEX_TOKENS} tokens do not fit, which Codex needs for its first request"
            return broken(name, "upstream", reason, advice)
        if outcome.error:
            return await bench.failed(name, outcome)
        return ok(name, f"{outcome.usage.get('input_tokens') or CODEX_TOKENS} tokens fit")
    if window < CODEX_TOKENS:
        reason = f"{window} tokens; Codex's first request alone has {CODEX_TOKENS}"
        return broken(name, "upstream", reason, advice)
    if window < ROOMY_TOKENS:
        return degraded(
            name, "upstream", f"{window} tokens: Codex will compact every few turns", advice
        )
    return ok(name, f"{window} tokens")


def _times(bench: Bench) -> list[float]:
    return [at for at, event in bench.answer.events if event.get("type") in _DELTAS]


def _is_burst(times: Sequence[float]) -> bool:
    if len(times) == 0 or times[-1] < TOO_FAST_SECONDS:
        return False
    return times[-1] - times[0] < BURST_SHARE * times[-1]
