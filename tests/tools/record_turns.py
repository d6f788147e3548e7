"""Makes the recordings in tests/recordings/turns anew: when the gateway is meant to say something else.

    python -m tests.tools.record_turns [NAME…]

Scripted scenarios (tests/server/recorded.py), and a few turns of the embedded model. Look at the
differences before you commit them: each is a change that clients or model servers will see.
"""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path

from gateway.upstream.local import LocalModel
from tests.server.clients import JSON, run_turn
from tests.server.recorded import APPLY_PATCH, SCENARIOS, WEATHER, files, record, recording

FOLDER = Path(__file__).parents[1] / "recordings" / "turns"
MODEL: dict[str, tuple[str, JSON]] = {
    "llamacpp_text": ("ws", {"input": "Say hello.", "max_output_tokens": 120}),
    "llamacpp_function": (
        "sse",
        {
            "input": "What is the weather in Rome?",
            "tools": [WEATHER],
            "tool_choice": "required",
            "max_output_tokens": 120,
        },
    ),
    "llamacpp_apply_patch": (
        "ws",
        {
            "input": "Make a file hello.txt that says hello.",
            "tools": [APPLY_PATCH],
            "tool_choice": {"type": "custom", "name": "apply_patch"},
            "max_output_tokens": 200,
        },
    ),
    "llamacpp_length": ("json", {"input": "Tell a long story.", "max_output_tokens": 8}),
}


async def by_script(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        keep(name, await record(name, Path(folder)))


async def by_model(name: str, model: LocalModel) -> None:
    transport, request = MODEL[name]
    with tempfile.TemporaryDirectory() as folder:
        async with recording(model.url, Path(folder)) as gateway:
            fixed = {"model": model.name, "temperature": 0, **request}
            await run_turn(transport, gateway.url, fixed)
        keep(name, files(Path(folder)))


def keep(name: str, found: list[Path]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for at, file in enumerate(found, start=1):
        target = FOLDER / (f"{name}_{at}.jsonl" if len(found) > 1 else f"{name}.jsonl")
        shutil.copyfile(file, target)
        print(target)


async def make(names: list[str]) -> None:
    for name in SCENARIOS:
        if name in names:
            await by_script(name)
    if any(name in names for name in MODEL):
        async with LocalModel() as model:
            for name in MODEL:
                if name in names:
                    await by_model(name, model)


if __name__ == "__main__":
    asyncio.run(make(sys.argv[1:] or [*SCENARIOS, *MODEL]))
