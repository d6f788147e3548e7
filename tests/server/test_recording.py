"""Recordings: what is in them and what is not, who may ask for one, and what a broken disk costs."""

import base64
import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.config import Config, RecordConfig, ServerConfig, UpstreamConfig
from gateway.server import recording as room
from gateway.server.keyfile import add_key
from gateway.server.onlookers import RECORDER
from gateway.server.recording import HEADER, Recording
from gateway.server.replaying import replay
from tests.scripted import Call, Raw, Refuse, ScriptedUpstream
from tests.server.clients import JSON, gateway_for, run_turn, ws_turn
from tests.server.recorded import REQUEST, files, lines_of, recording

CREATE: JSON = {"model": "scripted", "input": "hi"}


def kinds(lines: list[JSON]) -> list[str]:
    return [line["kind"] for line in lines]


async def post(gateway: Gateway, headers: dict[str, str], **body: Any) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{gateway.url}/v1/responses", json={**CREATE, **body}, headers=headers
        ) as answer,
    ):
        return answer.status, await answer.text()


async def test_both_sides_of_the_wire_are_in_it(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(["Hello, grün."], split=3) as upstream,
        recording(upstream.url, tmp_path) as gateway,
    ):
        reply = await run_turn("ws", gateway.url, REQUEST)
    (file,) = files(tmp_path)
    lines = lines_of(file)
    by_kind: dict[str, list[JSON]] = {}
    for line in lines:
        by_kind.setdefault(line["kind"], []).append(line)
    assert by_kind["turn"][0]["request"]["tools"] == REQUEST["tools"]
    assert json.loads(by_kind["asked"][0]["body"]) == upstream.bodies[0]
    assert by_kind["answered"][0]["status"] == 200
    sent = [event for line in by_kind["sent"] for event in line["events"]]
    assert sent == reply.events
    assert by_kind["end"][0]["response"] == reply.response
    assert by_kind["recording"][0]["transport"] == "ws"
    times = [line["t"] for line in lines[1:]]
    assert times == sorted(times)
    assert file.stat().st_mode & 0o777 == 0o600
    assert reply.response["id"] in file.name


async def test_the_pieces_of_an_answer_are_kept_as_they_came(tmp_path: Path) -> None:
    """Also one that ends in the middle of a character."""
    body = (
        'data: {"choices":[{"index":0,"delta":{"content":"grün 🙂"}}]}\n\ndata: [DONE]\n\n'.encode()
    )
    async with (
        ScriptedUpstream([Raw(body)], split=1) as upstream,
        recording(upstream.url, tmp_path) as gateway,
    ):
        await run_turn("sse", gateway.url, CREATE)
    (file,) = files(tmp_path)
    lines = lines_of(file)
    pieces = [
        line["text"].encode() if "text" in line else base64.b64decode(line["base64"])
        for line in lines
        if line["kind"] == "chunk"
    ]
    assert body.startswith(b"".join(pieces))
    assert replay(lines) is None


async def test_secrets_are_not_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted in headers, URLs and bodies of both sides; the model server quotes some, cut in two."""
    upstream_key, client_key = "plainUpstreamKey-5f1c", "plainClientKey-90dd"
    planted = [upstream_key, client_key, "cookieValue-31be", "urlPassword-77aa", "queryKey-12ef"]
    planted += ["mcpAuthorization-44", "sk-planted000111"]
    monkeypatch.setenv("PLANTED_KEY", upstream_key)
    quoted = f"you sent {client_key} and sk-planted000111"
    refusal = Refuse(401, {"error": {"message": f"Incorrect API key: {upstream_key}"}})
    async with ScriptedUpstream([quoted, refusal], split=7) as upstream:
        config = Config(
            server=ServerConfig(port=0, shutdown_seconds=0.5),
            upstream=UpstreamConfig(
                url=upstream.url.replace("://", "://user:urlPassword-77aa@"),
                api="chat",
                api_key_env="PLANTED_KEY",
            ),
            record=RecordConfig(dir=str(tmp_path)),
        )
        headers = {
            "Authorization": f"Bearer {client_key}",
            "Cookie": "session=cookieValue-31be",
            "X-Api-Key": client_key,
        }
        image = {"type": "input_image", "image_url": "https://h/x.png?token=queryKey-12ef"}
        mcp = {"type": "mcp", "server_label": "m", "authorization": "mcpAuthorization-44"}
        text = {"type": "input_text", "text": f"look at sk-planted000111 {upstream_key}"}
        items = [{"type": "message", "role": "user", "content": [text, image]}]
        async with Gateway(config) as gateway, aiohttp.ClientSession(headers=headers) as session:
            for _ in range(2):
                async with session.post(
                    f"{gateway.url}/v1/responses?key=queryKey-12ef",
                    json={**CREATE, "input": items, "tools": [mcp], "stream": True},
                ) as answer:
                    await answer.read()
    found = files(tmp_path)
    assert len(found) == 2
    for file in found:
        text_of_file = file.read_text()
        whole = "".join(
            line["text"] for line in lines_of(file) if line["kind"] == "chunk" and "text" in line
        )
        for secret in planted:
            assert secret not in text_of_file, (file.name, secret)
            assert secret not in whole
        assert replay(lines_of(file)) is None


async def test_only_who_asks_is_recorded_when_not_everybody_is(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(["one", "two", "three"]) as upstream,
        recording(upstream.url, tmp_path, every=False) as gateway,
    ):
        assert (await post(gateway, {}))[0] == 200
        assert (await post(gateway, {HEADER: "0"}))[0] == 200
        assert (await post(gateway, {HEADER: "1"}))[0] == 200
    assert len(files(tmp_path)) == 1


async def test_a_socket_asks_once_for_all_its_turns(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(["one", "two"]) as upstream,
        recording(upstream.url, tmp_path, every=False) as gateway,
        aiohttp.ClientSession() as session,
        session.ws_connect(f"{gateway.url}/v1/responses", headers={HEADER: "1"}) as socket,
    ):
        await ws_turn(socket, CREATE)
        await ws_turn(socket, {**CREATE, "stream_id": "lane_2"}, check=False)
    assert len(files(tmp_path)) == 2


async def test_a_key_must_be_allowed_to_ask(tmp_path: Path) -> None:
    keys, folder = tmp_path / "keys.toml", tmp_path / "recordings"
    plain, allowed = add_key(keys, "plain"), add_key(keys, "allowed")
    keys.write_text(keys.read_text().replace("[allowed]", "[allowed]\nrecord = true"))
    async with (
        ScriptedUpstream(["one", "two"]) as upstream,
        recording(upstream.url, folder, keys_file=str(keys), every=False) as gateway,
    ):
        refused = await post(gateway, {HEADER: "1", "Authorization": f"Bearer {plain}"})
        served = await post(gateway, {"Authorization": f"Bearer {plain}"})
        recorded = await post(gateway, {HEADER: "1", "Authorization": f"Bearer {allowed}"})
    assert (refused[0], served[0], recorded[0]) == (403, 200, 200)
    assert "record = true" in refused[1]
    assert len(files(folder)) == 1


async def test_who_asks_where_it_is_off_is_told() -> None:
    async with ScriptedUpstream([]) as upstream, gateway_for(upstream.url) as gateway:
        status, text = await post(gateway, {HEADER: "1"})
    assert status == 400
    assert "--record DIR" in text


async def test_a_recording_is_cut_where_it_would_be_too_large(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(["word by word " * 300]) as upstream,
        recording(upstream.url, tmp_path, max_bytes=16 * 1024) as gateway,
    ):
        reply = await run_turn("sse", gateway.url, CREATE)
    assert reply.response["status"] == "completed"
    (file,) = files(tmp_path)
    lines = lines_of(file)
    assert kinds(lines)[-1] == "cut"
    assert file.stat().st_size < 17 * 1024
    assert replay(lines) is None


async def test_a_turn_that_is_larger_than_all_it_may_hold(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(["fine"]) as upstream,
        recording(upstream.url, tmp_path, max_bytes=1024) as gateway,
    ):
        await run_turn("sse", gateway.url, {**CREATE, "instructions": "x" * 5000})
    (file,) = files(tmp_path)
    assert [json.loads(line)["kind"] for line in file.read_bytes().splitlines()] == [
        "recording",
        "cut",
    ]


async def test_the_oldest_go_and_only_what_is_ours(tmp_path: Path) -> None:
    mine = tmp_path / "notes.jsonl"
    mine.write_text("keep me")
    left = tmp_path / "20200101T000000.000Z-ws-resp_0.jsonl.part"
    left.write_text("of a gateway that was killed")
    async with (
        ScriptedUpstream(lambda request: "fine") as upstream,
        recording(upstream.url, tmp_path, max_files=2) as gateway,
    ):
        ids = [(await run_turn("sse", gateway.url, CREATE)).response["id"] for _ in range(4)]
    assert mine.read_text() == "keep me"
    assert not left.exists()
    kept = [file.name for file in files(tmp_path) if file != mine]
    assert [id for id in ids if any(id in name for name in kept)] == ids[2:]


async def test_a_folder_that_cannot_be_used_costs_recordings_and_no_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    async with (
        ScriptedUpstream(lambda request: "fine") as upstream,
        recording(upstream.url, blocked) as gateway,
    ):
        for _ in range(3):
            assert (await run_turn("ws", gateway.url, CREATE)).text == "fine"
        recorder = gateway.app[RECORDER]
    assert recorder is not None
    assert (recorder.written, recorder.failed) == (0, 3)
    assert recorder.shown()["last_error"] == "File exists"
    assert caplog.text.count("turns are not recorded in") == 1


async def test_a_disk_that_is_full_leaves_no_half_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Recording.lines

    def full(self: Recording, known: Any) -> Any:
        lines = whole(self, known)
        yield next(lines)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Recording, "lines", full)
    async with (
        ScriptedUpstream(["fine"]) as upstream,
        recording(upstream.url, tmp_path) as gateway,
    ):
        assert (await run_turn("ws", gateway.url, CREATE)).text == "fine"
        recorder = gateway.app[RECORDER]
    assert recorder is not None
    assert recorder.last_error == "No space left on device"
    assert os.listdir(tmp_path) == []


async def test_a_disk_that_hangs_holds_no_turn_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MAX_WAITING_RECORDINGS", 2)
    goes_on, whole = threading.Event(), Recording.lines

    def slow(self: Recording, known: Any) -> Any:
        goes_on.wait(15)
        return whole(self, known)

    monkeypatch.setattr(Recording, "lines", slow)
    async with (
        ScriptedUpstream(lambda request: "fine") as upstream,
        recording(upstream.url, tmp_path) as gateway,
    ):
        for _ in range(6):
            assert (await run_turn("ws", gateway.url, CREATE)).text == "fine"
        recorder = gateway.app[RECORDER]
        assert recorder is not None
        # One is being written, two wait (or three, when the thread was quick to take the first).
        assert recorder.failed in (3, 4)
        assert recorder.last_error == "the disk is too slow"
        goes_on.set()
    assert recorder.written + recorder.failed == 6
    assert len(files(tmp_path)) == recorder.written


async def test_an_odd_recording_does_not_end_the_recorder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = Recording.lines, []

    def once_broken(self: Recording, known: Any) -> Any:
        calls.append(self)
        if len(calls) == 1:
            raise ZeroDivisionError("a bug of ours")
        return whole(self, known)

    monkeypatch.setattr(Recording, "lines", once_broken)
    async with (
        ScriptedUpstream(["one", "two"]) as upstream,
        recording(upstream.url, tmp_path) as gateway,
    ):
        for _ in range(2):
            await run_turn("ws", gateway.url, CREATE)
    assert len(files(tmp_path)) == 1


async def test_a_watcher_that_fails_costs_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Any, *seen: Any) -> None:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr("gateway.server.activity.LiveTurn.sent", broken)
    async with (
        ScriptedUpstream([[Call("look", {})]]) as upstream,
        gateway_for(upstream.url) as gateway,
    ):
        reply = await run_turn("ws", gateway.url, CREATE)
    assert reply.response["status"] == "completed"
