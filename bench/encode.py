"""CPU time of writing one request of 200 items and 1 MB, for each profile: `python -m bench.encode`.

Budget: 2.5 ms a request. The figure is the best of many runs in one process, so that other load on
the machine does not count.
"""

import sys
import time
from typing import Any

from gateway.upstream.dialect import make_dialect
from gateway.upstream.profiles import load_profile, profile_names
from gateway.wire.json import dumps_str

JSON = dict[str, Any]

ITEMS = 200
BYTES = 1_000_000
RUNS = 50
BUDGET_MS = 2.5


def request() -> JSON:
    """A coding session: a reason, a patch, its result and a word, again and again."""
    developer = {"type": "message", "role": "developer", "content": "Be brief. " * 100}
    items: list[JSON] = [developer, {"type": "message", "role": "user", "content": "Do it."}]
    share = BYTES // (ITEMS // 4)
    patch = dumps_str({"input": "*** Begin Patch\n" + '+print("x")\n' * (share // 2 // 15)})
    result = "ok, one line\n" * (share // 2 // 14)
    for number in range((ITEMS - 3) // 4):
        call_id = f"call_{number}"
        thought = {"type": "reasoning_text", "text": "Let me see. " * 8}
        word = {"type": "output_text", "text": "One more. " * 8}
        items += [
            {"type": "reasoning", "summary": [], "content": [thought]},
            {"type": "function_call", "call_id": call_id, "name": "patch", "arguments": patch},
            {"type": "function_call_output", "call_id": call_id, "output": result},
            {"type": "message", "role": "assistant", "content": [word]},
        ]
    items.append({"type": "message", "role": "user", "content": "Go on."})
    properties = {f"p{n}": {"type": "string", "description": "A word."} for n in range(6)}
    parameters = {"type": "object", "properties": properties}
    tools = [
        {
            "type": "function",
            "name": f"tool_{n}",
            "description": "d" * 200,
            "parameters": parameters,
        }
        for n in range(20)
    ]
    return {"model": "m", "stream": True, "instructions": "x" * 15_000, "input": items} | {
        "tools": tools,
        "tool_choice": "auto",
    }


def best_ms(profile: str, dialect: str, lowered: JSON) -> tuple[float, int]:
    """Milliseconds of CPU for one `encode`, and the size of the body."""
    encode = make_dialect(load_profile(profile, {"dialect": dialect})).encode
    times = []
    body = b""
    for _ in range(RUNS):
        start = time.process_time()
        body = encode(lowered)
        times.append(time.process_time() - start)
    return min(times) * 1000, len(body)


def main() -> int:
    """Print one line for each profile and dialect; 1 when one is over the budget."""
    lowered = request()
    print(f"{len(lowered['input'])} items; best of {RUNS}; budget {BUDGET_MS} ms")
    worst = 0.0
    for profile in profile_names():
        for dialect in ("chat", "responses"):
            milliseconds, size = best_ms(profile, dialect, lowered)
            worst = max(worst, milliseconds)
            print(f"{profile:14} {dialect:10} {size:9,} bytes {milliseconds:6.2f} ms")
    return int(worst > BUDGET_MS)


if __name__ == "__main__":
    sys.exit(main())
