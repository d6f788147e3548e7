"""What lasts longer than one answer: a conversation over one socket, and the end of one that was left."""

from contextlib import aclosing
from typing import Final

from gateway.agent import samples
from gateway.agent.session import Unreachable
from gateway.doctor.bench import Bench, broken, degraded, ok
from gateway.doctor.findings import Finding

# The next answer may need this many times the usual time, and at least so long.
LATE_FACTOR: Final = 3.0
LATE_SECONDS: Final = 5.0
# Long enough to be still on its way when it is left.
LEFT_TOKENS: Final = 1024

_BUG: Final = "this is a bug: report it with the output of doctor --json"


async def continuation(bench: Bench) -> Finding:
    """As Codex does it: a prewarm that costs nothing, and what follows by its id."""
    name = "continuation"
    follow = samples.request(bench.model, [samples.user("Say yes.")], max_output_tokens=16)
    try:
        async with await bench.agent.connect() as socket:
            start = [samples.user("Be brief.")]
            first = await socket.ask(samples.request(bench.model, start, generate=False))
            if first.error:
                return await bench.failed(name, first)
            again = await socket.ask({**follow, "previous_response_id": first.response.get("id")})
            if again.error:
                return await bench.failed(name, again)
            lost = await socket.ask({**follow, "previous_response_id": "resp_of_nobody"})
    except (Unreachable, ConnectionError) as error:
        return broken(
            name, "between", f"the socket broke: {error}", "look at the proxy's time limits"
        )
    if lost.error.get("code") != "previous_response_not_found":
        return broken(name, "gateway", "an unknown id is not told as such", _BUG)
    return ok(name, "a turn goes on where the one before has ended")


async def cancel(bench: Bench) -> Finding:
    """An answer that is left must not hold up the next one."""
    name = "cancel"
    long = samples.request(
        bench.model,
        [samples.user("Count from one to one thousand in words.")],
        max_output_tokens=LEFT_TOKENS,
    )
    try:
        async with await bench.agent.connect() as socket, aclosing(socket.events(long)) as events:
            async for _, event in events:
                if event.get("type", "").endswith(".delta"):
                    break
            socket.drop()
    except (Unreachable, ConnectionError, TimeoutError) as error:
        return degraded(
            name, "between", f"it could not be tried: {str(error) or 'no answer in time'}"
        )
    usual = bench.answer.events[-1][0] if bench.answer.events else 0.0
    after = await bench.agent.ask(samples.text(bench.model))
    if after.error:
        return await bench.failed(name, after)
    took = after.events[-1][0] if after.events else 0.0
    if took > max(LATE_SECONDS, LATE_FACTOR * usual):
        reason = f"after an answer was left the next one took {took:.1f} s instead of {usual:.1f} s"
        return degraded(
            name, "upstream", reason, "does the model server stop when a connection ends?"
        )
    return ok(name, "an answer that was left does not hold up the next one")
