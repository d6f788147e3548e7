"""A real llama.cpp is kept to a grammar, through the gateway, over all three transports.

The history teaches a wrong patch form. Without the constraint no call matches the grammar; with it every finished call
does. The figures that this prints stand in the README.
"""

from pathlib import Path
from typing import Any

import pytest

from gateway.config import ToolsConfig
from gateway.grammar.load import load_grammar
from gateway.upstream.local import LocalModel
from tests.server.clients import run_turn
from tests.serving import serving

DEFINITION = (Path(__file__).parents[1] / "grammars" / "apply_patch.lark").read_text()
TOOL = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Apply a patch.",
    "format": {"type": "grammar", "syntax": "lark", "definition": DEFINITION},
}
CONSTRAINED_CALLS = 21
UNCONSTRAINED_CALLS = 6
TRANSPORTS = ("json", "sse", "ws")
# Between the two temperatures of the promise, and never twice the same request.
TEMPERATURES = (0.5, 0.6, 0.7, 0.8)
# A small model under a constraint may go round in circles; what is cut is no finished call.
MAX_TOKENS = 160


def history() -> list[dict[str, Any]]:
    """Four rounds in which a wrong form was written, and seemed to do."""
    items: list[dict[str, Any]] = []
    for name in "abcd":
        wrong = f"*** Begin Patch ***\n*** New File: {name}.txt\nhello {name}\n*** End Patch ***"
        call = {"type": "custom_tool_call", "call_id": f"call_{name}", "name": "apply_patch"}
        output = {"type": "custom_tool_call_output", "call_id": f"call_{name}", "output": "Success"}
        items += [
            {"role": "user", "content": f"Create the file {name}.txt"},
            {**call, "input": wrong},
            output,
            {"role": "assistant", "content": "Done."},
        ]
    return [*items, {"role": "user", "content": "Create the file e.txt"}]


def request(number: int) -> dict[str, Any]:
    return {
        "model": "smollm2-135m",
        "input": history(),
        "tools": [TOOL],
        "temperature": TEMPERATURES[number % len(TEMPERATURES)],
        "seed": number,
        "max_output_tokens": MAX_TOKENS,
        "store": False,
    }


async def finished_calls(url: str, wanted: int, most: int) -> list[str]:
    """Texts of finished calls; each request over another transport than the one before."""
    texts: list[str] = []
    for number in range(most):
        transport = TRANSPORTS[number % len(TRANSPORTS)]
        reply = await run_turn(transport, url.removesuffix("/v1"), request(number))
        texts += [
            item["input"]
            for item in reply.response["output"]
            if item["type"] == "custom_tool_call" and item["status"] == "completed"
        ]
        if len(texts) >= wanted:
            break
    return texts


@pytest.mark.timeout(900)
async def test_the_grammar_is_kept_where_the_model_runs(capsys: pytest.CaptureFixture[str]) -> None:
    grammar = load_grammar("lark", DEFINITION)
    async with LocalModel() as model:
        free = ToolsConfig(constrain="off")
        async with serving(model.url, profile="llamacpp", tools=free) as url:
            loose = await finished_calls(url, UNCONSTRAINED_CALLS, 2 * UNCONSTRAINED_CALLS)
        async with serving(model.url, profile="llamacpp") as url:
            kept = await finished_calls(url, CONSTRAINED_CALLS, 3 * CONSTRAINED_CALLS)
    loose_valid = sum(map(grammar.matches, loose))
    kept_valid = sum(map(grammar.matches, kept))
    with capsys.disabled():
        print(
            f"\ncalls that match the grammar: {loose_valid} of {len(loose)} without the "
            f"constraint, {kept_valid} of {len(kept)} with it"
        )
    assert loose
    assert loose_valid == 0
    assert len(kept) >= CONSTRAINED_CALLS
    assert kept_valid == len(kept)
