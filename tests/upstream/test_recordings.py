"""Every answer that a real server gave: one and the same canonical stream, however its bytes are cut."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.upstream.errors import read_error
from gateway.upstream.profiles import Profile
from tests.upstream.canonical import JSON, check_canonical
from tests.upstream.exchanges import FOLDER, Exchange, all_files, load

FILES = all_files()
ANSWERS = [file for file in FILES if load(file).status == 200]
# The longest answers, on which hypothesis chooses the cuts; every other one is cut at each byte.
CUT_FREELY = sorted(ANSWERS, key=lambda file: file.stat().st_size)[-20:]


def name(file: Path) -> str:
    return f"{file.parent.name.split('-')[0]}/{file.stem}"


def read(exchange: Exchange, chunks: list[bytes]) -> list[JSON]:
    reader = exchange.reader()
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return events + reader.finish()


def test_the_recordings_are_there():
    assert len(FILES) > 240
    assert {file.parent.name.split("-")[0] for file in FILES} == {
        "llamacpp",
        "litellm",
        "transformers",
        "vllm",
    }


@pytest.mark.parametrize("file", FILES, ids=name)
def test_events_do_not_depend_on_cuts(file: Path):
    exchange = load(file)
    whole = read(exchange, [exchange.body])
    check_canonical(whole)
    assert read(exchange, exchange.chunks) == whole
    body = exchange.body
    assert read(exchange, [body[i : i + 1] for i in range(len(body))]) == whole


@given(data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_events_do_not_depend_on_chosen_cuts(data: st.DataObject):
    exchange = load(data.draw(st.sampled_from(CUT_FREELY)))
    body = exchange.body
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=40).map(sorted))
    chunks = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    assert read(exchange, chunks) == read(exchange, [body])


ENDS = (b'"finish_reason":"', b'"response.completed"', b'"response.incomplete"', b'"error"')


@pytest.mark.parametrize("file", ANSWERS, ids=name)
def test_an_answer_that_breaks_off_fails(file: Path):
    exchange = load(file)
    body = exchange.body
    end = min(at for mark in ENDS if (at := body.find(mark)) > 0) if is_stream(body) else len(body)
    for cut in (end // 3, end // 2, end - 1):
        canonical = check_canonical(read(exchange, [body[:cut]]))
        assert canonical.terminal is not None
        assert canonical.terminal["type"] == "response.failed"


def is_stream(body: bytes) -> bool:
    return body.startswith((b"data:", b"event:"))


@pytest.mark.parametrize("file", [file for file in FILES if load(file).status >= 400], ids=name)
def test_refusals_have_words_and_a_status(file: Path):
    exchange = load(file)
    error = read_error(Profile(), exchange.status, exchange.headers, exchange.body)
    assert error.message
    assert error.code is None or not error.code.isdigit()
    is_context = "chat-25" in file.stem or "chat-26" in file.stem or "resp-32" in file.stem
    assert (error.code == "context_length_exceeded") == is_context
    assert error.status == exchange.status


FEW_SHOT_CALLS = {
    "fs-01-chat-stream": ("get_weather", '{"city": "Paris"}'),
    "fs-02-chat-block": ("get_weather", '{"city": "Paris"}'),
    "fs-03-chat-patch-stream": (
        "apply_patch",
        r'{"input": "*** Begin Patch\n*** Add File: f.txt\n+hello f.txt\n*** End Patch\n"}',
    ),
    "fs-06-resp-stream": ("get_weather", '{"city": "Paris"}'),
    "fs-07-resp-block": ("get_weather", '{"city": "Paris"}'),
}


@pytest.mark.parametrize("stem", FEW_SHOT_CALLS)
def test_real_calls_come_out_as_the_model_wrote_them(stem: str):
    files = list(FOLDER.glob(f"*/{stem}.txt"))
    assert files
    for file in files:
        exchange = load(file)
        canonical = check_canonical(read(exchange, [exchange.body]))
        (item,) = canonical.items
        assert (item["name"], item["arguments"]) == FEW_SHOT_CALLS[stem]
        assert item["status"] == "completed"
        assert canonical.terminal is not None
        assert canonical.terminal["type"] == "response.completed"


@pytest.mark.parametrize("stem", ["fs-04-chat-patch-length", "fs-08-resp-length-stream"])
def test_real_calls_that_the_limit_cut_are_incomplete(stem: str):
    """llama.cpp calls its response and its item completed, vLLM its item (Q16, Q17)."""
    files = list(FOLDER.glob(f"*/{stem}.txt"))
    assert files
    for file in files:
        exchange = load(file)
        canonical = check_canonical(read(exchange, [exchange.body]))
        assert canonical.items[-1]["status"] == "incomplete"
        assert canonical.terminal is not None
        details = canonical.terminal["response"]["incomplete_details"]
        assert details == {"reason": "max_output_tokens"}
