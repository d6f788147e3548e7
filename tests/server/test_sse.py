"""Server-sent events: framing, headers, and as few writes as there are chunks."""

import asyncio

import aiohttp
import pytest
from aiohttp.http_writer import StreamWriter

from tests.scripted import Raw, ScriptedUpstream, hang
from tests.server.clients import JSON, gateway_for

REQUEST: JSON = {"model": "scripted", "input": "hi", "stream": True}


def chunk(text: str) -> bytes:
    return b'data: {"choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n' % text.encode()


async def test_the_head_and_the_end_of_a_stream() -> None:
    async with (
        ScriptedUpstream(["hello"]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/v1/responses", json=REQUEST) as answer,
    ):
        body = await answer.text()
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.headers["x-request-id"].startswith("req_")
    assert "[DONE]" not in body
    assert body.endswith("\n\n")
    assert body.split("\n\n")[-2].startswith("event: response.completed\ndata: {")


async def test_the_events_of_one_chunk_leave_in_one_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    writes: list[bytes] = []
    write = StreamWriter.write

    async def recorded(writer: StreamWriter, data: bytes) -> None:
        if b"event: response." in data:
            writes.append(data)
        await write(writer, data)

    monkeypatch.setattr(StreamWriter, "write", recorded)
    body = b"".join(map(chunk, "abcdef")) + b"data: [DONE]\n\n"
    async with (
        ScriptedUpstream([Raw(body)]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/v1/responses", json=REQUEST) as answer,
    ):
        await answer.read()
    assert len(writes) == 2
    assert writes[0].count(b"event: ") == 2  # created and in_progress, as soon as there is a status
    assert writes[1].count(b"event: response.output_text.delta") == 6
    assert b"event: response.completed" in writes[1]


async def test_events_come_while_the_answer_is_on_its_way() -> None:
    async with (
        ScriptedUpstream([hang(["one two three four"], after=3)]) as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/v1/responses", json=REQUEST) as answer,
    ):
        seen = b""
        while b"response.output_text.delta" not in seen:
            seen += await answer.content.readany()
        assert b"response.completed" not in seen
        upstream.release()
        seen += await answer.content.read()
        assert b"response.completed" in seen


async def test_many_streams_at_once_do_not_mix() -> None:
    async def turn(session: aiohttp.ClientSession, url: str, word: str) -> None:
        body = {**REQUEST, "input": word}
        async with session.post(f"{url}/v1/responses", json=body) as answer:
            text = await answer.text()
        assert text.count(f"echo {word}") >= 1
        assert text.count("event: response.completed") == 1

    async with (
        ScriptedUpstream(lambda request: f"echo {request.texts[0]}") as upstream,
        gateway_for(upstream.url) as gateway,
        aiohttp.ClientSession() as session,
    ):
        await asyncio.gather(*(turn(session, gateway.url, f"w{n}") for n in range(40)))
