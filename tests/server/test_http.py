"""HTTP itself: bodies in every encoding and of every badness, routes, and stored responses."""

import gzip
import json
import random
import sys
import zlib
from collections.abc import AsyncIterator, Callable
from time import process_time

import aiohttp
import pytest

from gateway.app import Gateway
from gateway.errors import RequestError
from gateway.server.body import MAX_MEMBERS, decode
from tests.scripted import Call, ScriptedUpstream
from tests.server.clients import JSON, gateway_for, run_turn

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

REQUEST: JSON = {"model": "scripted", "input": "hi"}
LIMIT = 4096


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


ENCODERS = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": zstd.compress,
    "identity": bytes,
}


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(lambda request: "fine") as upstream:
        yield upstream


@pytest.fixture
async def gateway(upstream: ScriptedUpstream) -> AsyncIterator[Gateway]:
    async with gateway_for(upstream.url, max_body_bytes=LIMIT) as gateway:
        yield gateway


async def fetch(
    gateway: Gateway,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> tuple[int, JSON, dict[str, str]]:
    """(status, decoded body, headers with lower-case names)."""
    headers = {"Content-Type": "application/json", **(headers or {})}
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, gateway.url + path, data=body, headers=headers) as answer,
    ):
        found = await answer.json()
        return answer.status, found, {k.lower(): v for k, v in answer.headers.items()}


async def post(
    gateway: Gateway, body: bytes, encoding: str | None = None
) -> tuple[int, JSON, dict[str, str]]:
    headers = {} if encoding is None else {"Content-Encoding": encoding}
    return await fetch(gateway, "POST", "/v1/responses", body, headers)


def assert_error(body: JSON) -> None:
    assert body.keys() == {"error"}
    assert body["error"].keys() == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    assert "Traceback" not in body["error"]["message"]


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_bodies_in_every_encoding(gateway: Gateway, encoding: str) -> None:
    status, body, _ = await post(
        gateway, ENCODERS[encoding](json.dumps(REQUEST).encode()), encoding
    )
    assert (status, body["status"]) == (200, "completed")


async def test_encodings_in_layers_and_in_members(gateway: Gateway) -> None:
    data = json.dumps(REQUEST).encode()
    for body, encoding in (
        (zstd.compress(gzip.compress(data, mtime=0)), "gzip, zstd"),
        (gzip.compress(data[:9], mtime=0) + gzip.compress(data[9:], mtime=0), "GZIP"),
        (zstd.compress(data[:9]) + zstd.compress(data[9:]), "zstd"),
        (raw_deflate(data), "deflate"),
    ):
        status, answer, _ = await post(gateway, body, encoding)
        assert (status, answer["status"]) == (200, "completed"), encoding


@pytest.mark.parametrize(
    ("encoding", "compress"), [("gzip", gzip.compress), ("zstd", zstd.compress)]
)
def test_empty_members_cost_no_more_than_their_bytes(
    encoding: str, compress: Callable[[bytes], bytes]
) -> None:
    """Each member once copied all that follows it: a megabyte of empty ones took ten seconds."""
    noise = compress(random.Random(1).randbytes(20_000_000))
    began = process_time()
    decode(compress(b"") * (MAX_MEMBERS - 1) + noise, [encoding], 32 << 20)
    assert process_time() - began < 2
    with pytest.raises(RequestError, match=f"more than {MAX_MEMBERS} {encoding} members"):
        decode(compress(b"") * 100_000, [encoding], 32 << 20)


@pytest.mark.parametrize(
    ("body", "encoding", "status", "words"),
    [
        (b"not gzip", "gzip", 400, "not valid gzip"),
        (b"", "gzip", 400, "not valid gzip"),
        (gzip.compress(b"{}", mtime=0)[:-9], "gzip", 400, "not valid gzip"),
        (b"not zstd", "zstd", 400, "not valid zstd"),
        (zstd.compress(b"{}" * 40)[:-3], "zstd", 400, "not valid zstd"),
        (zlib.compress(b"{}")[:-2], "deflate", 400, "not valid deflate"),
        (b"{}", "br", 415, "'br'"),
        (b"{}", "gzip, gzip, gzip", 415, "too often"),
        (gzip.compress(b" " * (LIMIT + 1), mtime=0), "gzip", 413, str(LIMIT)),
        (zstd.compress(b" " * 10_000_000), "zstd", 413, str(LIMIT)),
        (zlib.compress(b" " * 10_000_000), "deflate", 413, str(LIMIT)),
        (b" " * (LIMIT + 1), None, 413, str(LIMIT)),
        (b"", None, 400, "JSON"),
        (b"{", None, 400, "JSON"),
        (b'{"model": NaN}', None, 400, "JSON"),
        (b'{"model": "\xff"}', None, 400, "JSON"),
        (b'{"input": "\\ud800"}', None, 400, "JSON"),
        (b"[" * 2000, None, 400, "JSON"),
        (b"[]", None, 400, "object"),
        (b"null", None, 400, "object"),
        (b"{}", None, 400, "'model'"),
        (b'{"model": "m"}', None, 400, "'input'"),
    ],
)
async def test_a_bad_body_is_an_error_and_harms_nobody(
    gateway: Gateway,
    upstream: ScriptedUpstream,
    body: bytes,
    encoding: str | None,
    status: int,
    words: str,
) -> None:
    got, answer, _ = await post(gateway, body, encoding)
    assert got == status
    assert_error(answer)
    assert words in answer["error"]["message"]
    assert upstream.requests == []
    assert (await run_turn("json", gateway.url, REQUEST)).text == "fine"


async def test_a_body_of_exactly_the_limit_is_taken(gateway: Gateway) -> None:
    data = json.dumps(REQUEST).encode()
    for body, encoding in (
        (data + b" " * (LIMIT - len(data)), None),
        (gzip.compress(data + b" " * (LIMIT - len(data)), mtime=0), "gzip"),
    ):
        status, _, _ = await post(gateway, body, encoding)
        assert status == 200


async def test_a_chunked_body_over_the_limit(gateway: Gateway) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b" " * 1000

    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{gateway.url}/v1/responses", data=chunks()) as answer,
    ):
        assert answer.status == 413
        assert_error(await answer.json())


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/nothing", 404),
        ("POST", "/responses", 404),
        ("PUT", "/v1/responses", 405),
        ("POST", "/v1/models", 405),
        ("GET", "/v1/responses", 426),
        ("GET", "/v1/responses/resp_1", 404),
        ("DELETE", "/v1/responses/resp_1", 404),
        ("GET", "/v1/responses/resp_1/input_items", 404),
    ],
)
async def test_paths_and_methods_that_are_not_there(
    gateway: Gateway, method: str, path: str, status: int
) -> None:
    got, body, headers = await fetch(gateway, method, path)
    assert got == status
    assert_error(body)
    assert headers["x-request-id"].startswith("req_")
    if status == 405:
        assert headers["allow"]


async def test_every_answer_has_an_id_of_its_own_and_tells_no_versions(gateway: Gateway) -> None:
    first, second = [await fetch(gateway, "GET", "/healthz") for _ in range(2)]
    assert first[2]["x-request-id"] != second[2]["x-request-id"]
    assert first[2]["server"] == "responses-gateway"
    assert (first[0], first[1]) == (200, {"status": "ok"})


async def test_ready_means_that_the_model_server_answers(gateway: Gateway) -> None:
    assert (await fetch(gateway, "GET", "/readyz"))[0] == 200
    async with gateway_for("http://127.0.0.1:9/v1") as lonely:
        assert (await fetch(lonely, "GET", "/readyz"))[0] == 503
        assert (await fetch(lonely, "GET", "/healthz"))[0] == 200


async def test_models_are_those_of_the_model_server(gateway: Gateway) -> None:
    status, body, _ = await fetch(gateway, "GET", "/v1/models")
    assert (status, body["object"]) == (200, "list")
    assert [model["id"] for model in body["data"]] == ["scripted"]
    assert {model["object"] for model in body["data"]} == {"model"}
    assert [entry["slug"] for entry in body["models"]] == ["scripted"]


async def test_a_stored_response_is_read_and_deleted(gateway: Gateway) -> None:
    made = (await run_turn("json", gateway.url, REQUEST)).response
    path = f"/v1/responses/{made['id']}"
    assert (await fetch(gateway, "GET", path))[:2] == (200, made)
    status, body, _ = await fetch(gateway, "GET", f"{path}?stream=true")
    assert (status, body["error"]["param"]) == (400, "stream")
    deleted = {"id": made["id"], "object": "response", "deleted": True}
    assert (await fetch(gateway, "DELETE", path))[:2] == (200, deleted)
    status, body, _ = await fetch(gateway, "GET", path)
    assert status == 404
    assert body["error"]["message"] == f"Response with id '{made['id']}' not found."
    reply = await run_turn("json", gateway.url, {**REQUEST, "previous_response_id": made["id"]})
    assert reply.error["code"] == "previous_response_not_found"


async def test_a_response_that_is_not_to_be_stored_is_not(gateway: Gateway) -> None:
    made = (await run_turn("json", gateway.url, {**REQUEST, "store": False})).response
    assert (await fetch(gateway, "GET", f"/v1/responses/{made['id']}"))[0] == 404


async def test_input_items_are_listed_in_pages(gateway: Gateway) -> None:
    texts = [{"role": "user", "content": str(number)} for number in range(5)]
    made = (await run_turn("json", gateway.url, {**REQUEST, "input": texts})).response
    path = f"/v1/responses/{made['id']}/input_items"
    _, page, _ = await fetch(gateway, "GET", f"{path}?limit=2")
    assert [item["content"] for item in page["data"]] == ["4", "3"]
    assert page["object"] == "list"
    assert page["has_more"] is True
    assert (page["first_id"], page["last_id"]) == tuple(item["id"] for item in page["data"])
    _, rest, _ = await fetch(gateway, "GET", f"{path}?after={page['last_id']}")
    assert [item["content"] for item in rest["data"]] == ["2", "1", "0"]
    assert rest["has_more"] is False
    _, up, _ = await fetch(gateway, "GET", f"{path}?order=asc")
    assert [item["content"] for item in up["data"]] == list("01234")
    for query, param, status in (
        ("limit=0", "limit", 400),
        ("limit=101", "limit", 400),
        ("limit=x", "limit", 400),
        ("order=up", "order", 400),
        ("after=msg_x", "after", 404),
    ):
        got, body, _ = await fetch(gateway, "GET", f"{path}?{query}")
        assert (got, body["error"]["param"]) == (status, param)


async def test_a_pending_call_must_be_answered(
    gateway: Gateway, upstream: ScriptedUpstream
) -> None:
    upstream._script = lambda request: Call("look", {})
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    first = await run_turn("json", gateway.url, {**REQUEST, "tools": [tool]})
    reply = await run_turn(
        "json", gateway.url, {**REQUEST, "previous_response_id": first.response["id"]}
    )
    call_id = first.response["output"][0]["call_id"]
    assert reply.status == 400
    assert reply.error["message"] == f"No tool output found for function call {call_id}."
