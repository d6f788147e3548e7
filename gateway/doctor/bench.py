"""What the checks work with, and how a turn that failed is explained: whose fault is it?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.agent import samples
from gateway.agent.session import Agent, Outcome
from gateway.doctor.direct import Direct
from gateway.doctor.findings import Fault, Finding, Verdict
from gateway.wire.json import JSON

# One turn of a check: 64 to 256 tokens of a small model on a busy machine, and its prefill.
TURN_SECONDS: Final = 120.0
# A first piece after this time feels broken to whoever waits for it.
SLOW_SECONDS: Final = 20.0
# Of a message of the gateway: its first words name the cause.
_SHOWN_CHARS: Final = 300
# What a tool server that has no tools answers with, in place of a call.
LEAKS: Final = (
    "<tool_call",
    "[TOOL_CALLS]",
    "<function=",
    "<|tool_call",
    "<|python_tag|>",
    "｜tool▁call",
)

_PARSER = (
    "start vLLM with --enable-auto-tool-choice --tool-call-parser NAME, llama.cpp with --jinja, SGLang with "
    "--tool-call-parser NAME"
)
_URL = "check the URL that follows --upstream: it names the server's API and ends in /v1"
# Code of an error -> who, and what to do.
_BY_CODE: Final[Mapping[str, tuple[Fault, str]]] = {
    "upstream_unreachable": ("upstream", "start the model server, or correct --upstream"),
    "upstream_timeout": ("upstream", "see whether the model server is stuck or overloaded"),
    "upstream_broke_off": ("upstream", "read the model server's log: it may have crashed"),
    "context_length_exceeded": ("upstream", "start the model server with a larger context"),
    "model_not_found": ("client", "name a model that the server lists: --model, and codex --write"),
    "rate_limit_exceeded": ("upstream", "wait, or raise the limit of the model server's account"),
    "not_the_gateway": ("between", "let the proxy pass /v1/responses on unchanged"),
    "broke_off": ("between", "read the gateway's log, and that of a proxy before it"),
    "timeout": ("upstream", "see whether the model server is stuck, or give it --seconds"),
}
# Words in the message of an error -> who, and what to do; the first that fits.
_BY_WORDS: Final[tuple[tuple[str, Fault, str], ...]] = (
    (
        "refused the gateway's own key",
        "upstream",
        "set upstream.api_key_env to a variable with a good key",
    ),
    ("The upstream answered HTML", "upstream", _URL),
    ("not HTTP", "upstream", _URL),
    ("tool-call-parser", "upstream", _PARSER),
    ("tools param requires --jinja", "upstream", _PARSER),
    ("does not support tools", "upstream", "choose a model that knows tools"),
)


@dataclass
class Bench:
    """One run of the doctor.

    Attributes:
        agent: the way through the gateway.
        model: a public model name; "" until the models are known.
        wish: the model that the user has named; "" for the first one.
        slow_seconds: a first piece after this time is slow.
        facts: what the gateway says of its model server; {} when it does not.
        direct: the way past the gateway; None when its model server cannot be asked.
        answer: the plain answer that several checks look at.
        server: the `Server` header of what answers.
        upstream_key: for questions past the gateway; "" for a server without keys.
        is_locked: the model server wants a key that we do not have.
    """

    agent: Agent
    wish: str = ""
    slow_seconds: float = SLOW_SECONDS
    model: str = ""
    facts: JSON = field(default_factory=dict)
    direct: Direct | None = None
    answer: Outcome = field(default_factory=Outcome)
    server: str = ""
    upstream_key: str = ""
    is_locked: bool = False

    async def failed(
        self, check: str, outcome: Outcome, tools: list[JSON] | None = None
    ) -> Finding:
        """The finding for a turn that has failed."""
        code, message = str(outcome.error.get("code")), str(outcome.error.get("message") or "")
        reason = message[:_SHOWN_CHARS] or f"the turn ended with status {outcome.status}"
        for words, fault, advice in _BY_WORDS:
            if words in message:
                return broken(check, fault, reason, advice)
        if code in _BY_CODE:
            fault, advice = _BY_CODE[code]
            return broken(check, fault, reason, advice)
        return await self._compared(check, reason, tools or [])

    async def _compared(self, check: str, reason: str, tools: list[JSON]) -> Finding:
        if self.direct is None:
            return broken(check, "upstream", reason, "read the gateway's log")
        plain = await self.direct.ask("Say yes.", tools)
        if plain.is_answer:
            advice = "this is a bug: report it with the output of doctor --json"
            return broken(
                check, "gateway", f"{reason} (asked directly, the model server answers)", advice
            )
        seen = f"HTTP {plain.status}" if plain.status else plain.text
        advice = (
            _URL if plain.status in (0, 404, 405) else "mend what the model server complains of"
        )
        return broken(check, "upstream", f"{reason} (asked directly: {seen})", advice)

    async def no_call(self, check: str, outcome: Outcome, tool: JSON | None) -> Finding:
        """The finding for a turn in which a call was to be made and none was.

        Args:
            check: its name.
            outcome: of the turn.
            tool: a function to ask the model server for directly; None does not ask.
        """
        if leak := next((leak for leak in LEAKS if leak in outcome.text), None):
            reason = f"a call came as text ({leak}…): the model server has no parser for this model's calls"
            return broken(check, "upstream", reason, _PARSER)
        if outcome.response.get("status") == "incomplete":
            return _cut(check, outcome)
        if tool is not None and self.direct is not None:
            question = "What is the weather in Oslo?"
            bare, declared = (
                await self.direct.ask(question, []),
                await self.direct.ask(question, [tool], tokens=samples.MAX_CALL_TOKENS),
            )
            if declared.calls:
                reason = "the model server makes a call when it is asked directly"
                return broken(
                    check, "gateway", reason, "report this with the output of doctor --json"
                )
            if bare.input_tokens and bare.input_tokens == declared.input_tokens:
                reason = "the model server takes tools and drops them: the prompt has the same length without"
                return broken(check, "upstream", reason, _PARSER)
        reason = "the model did not call, though it was told that it must"
        return degraded(check, "model", reason, "choose a model that was trained for tools")


def _cut(check: str, outcome: Outcome) -> Finding:
    written = int(outcome.usage.get("output_tokens") or 0)
    if written >= samples.MAX_CALL_TOKENS * 0.9:
        reason = f"the call was not finished within {samples.MAX_CALL_TOKENS} tokens"
        return degraded(check, "model", reason, "choose a model that was trained for tools")
    reason = f"the call was cut off in the middle, after {written} tokens"
    return broken(
        check, "upstream", reason, "raise the model server's own limit of output tokens or context"
    )


def ok(check: str, reason: str) -> Finding:
    return Finding(check=check, verdict="ok", reason=reason)


def degraded(check: str, fault: Fault, reason: str, advice: str = "") -> Finding:
    return _bad("degraded", check, fault, reason, advice)


def broken(check: str, fault: Fault, reason: str, advice: str = "") -> Finding:
    return _bad("broken", check, fault, reason, advice)


def _bad(verdict: Verdict, check: str, fault: Fault, reason: str, advice: str) -> Finding:
    return Finding(check=check, verdict=verdict, fault=fault, reason=reason, advice=advice)


def calls_of(outcome: Outcome, kind: str) -> list[dict[str, Any]]:
    """The items of one type in an answer."""
    return [item for item in outcome.output if item.get("type") == kind]
