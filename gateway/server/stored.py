"""Stored responses over HTTP: read one, follow or cancel one that runs, list its input, delete it."""

import time
from typing import Final

import msgspec
from aiohttp import web

from gateway.errors import RequestError
from gateway.server.background import MAX_RUN_SECONDS, Run
from gateway.server.http import follow, json_response
from gateway.server.keys import BACKGROUND, OWNER, RELAY, STORE
from gateway.store.protocol import Row
from gateway.wire.checks import wrong_value
from gateway.wire.json import JSON

# The API's own page sizes.
PAGE = 20
MAX_PAGE = 100
# A sequence number with more digits is none.
MAX_NUMBER_DIGITS = 12
UNFINISHED = ("queued", "in_progress")
# The values of `include` (openai 3.57: ResponseIncludable).
INCLUDES: Final = (
    "file_search_call.results",
    "web_search_call.results",
    "web_search_call.action.sources",
    "message.input_image.image_url",
    "computer_call_output.output.image_url",
    "code_interpreter_call.outputs",
    "reasoning.encrypted_content",
    "message.output_text.logprobs",
)
# Listed items have ids; what a client sent without one gets it from its place.
_PREFIXES: Final = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "compaction": "cmp",
    "additional_tools": "at",
}


async def get_response(request: web.Request) -> web.StreamResponse:
    """`GET /v1/responses/{id}`: a background response that runs is shown as far as it has come."""
    _check_include(request)
    number = _starting_after(request) + 1
    run = _run(request)
    if request.query.get("stream", "false") != "true":
        return json_response((await _find(request)).response if run is None else run.response)
    if run is not None and run.has(number):
        return await follow(request, run, number)
    if run is None and not (await _find(request)).response["background"]:
        raise RequestError(
            "Only background responses can be streamed again: create the response with "
            "'background' set to true.",
            param="stream",
        )
    raise RequestError(
        "The events of this response are not kept any more, or not by this process of the "
        "gateway. Read it without 'stream'.",
        param="stream" if run is None else "starting_after",
    )


async def cancel_response(request: web.Request) -> web.Response:
    """`POST /v1/responses/{id}/cancel`; again and again, since the answer may get lost."""
    run = _run(request)
    if run is not None:
        await request.app[BACKGROUND].cancel(run)
        return json_response(run.response)
    response = (await _find(request)).response
    if not response["background"]:
        raise RequestError("Cannot cancel a synchronous response.")
    if response["status"] in UNFINISHED:
        raise RequestError(
            "This response runs in another process of the gateway. Send the request again.",
            status=409,
        )
    return json_response(response)


async def delete_response(request: web.Request) -> web.Response:
    """`DELETE /v1/responses/{id}`; one that runs is cancelled."""
    id = request.match_info["id"]
    run = _run(request)
    if run is not None:
        await request.app[BACKGROUND].forget(run)
    request.app[RELAY].parents.forget(id, request[OWNER])
    if not await request.app[STORE].delete(id, request[OWNER]):
        raise _unknown(id)
    return json_response({"id": id, "object": "response", "deleted": True})


async def count_input_tokens(request: web.Request) -> web.Response:
    """`POST /v1/responses/input_tokens`: only the model's own tokenizer could say."""
    raise RequestError(
        "This gateway does not count input tokens: read 'usage' of a response.", status=404
    )


async def list_input_items(request: web.Request) -> web.Response:
    """`GET /v1/responses/{id}/input_items`."""
    query = request.query
    limit = _limit(query.get("limit"))
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise RequestError(
            f"Invalid value: '{order}'. Supported values are: 'asc' and 'desc'.",
            code="invalid_value",
            param="order",
        )
    _check_include(request)
    items = _listed(await _find(request))
    if order == "desc":
        items.reverse()
    if after := query.get("after"):
        ids = [item["id"] for item in items]
        if after not in ids:
            raise RequestError(f"Item with id '{after}' not found.", param="after", status=404)
        items = items[ids.index(after) + 1 :]
    page = items[:limit]
    return json_response(
        {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": len(items) > limit,
        }
    )


def _run(request: web.Request) -> Run | None:
    return request.app[BACKGROUND].find(request.match_info["id"], request[OWNER])


async def _find(request: web.Request) -> Row:
    id = request.match_info["id"]
    row = await request.app[STORE].get(id, request[OWNER])
    if row is None:
        raise _unknown(id)
    is_lost = row.created_at < time.time() - MAX_RUN_SECONDS
    if is_lost and row.response["status"] in UNFINISHED:
        error = {"code": "server_error", "message": "The gateway ended before this response did."}
        failed = {**row.response, "status": "failed", "error": error}
        return msgspec.structs.replace(row, response=failed)
    return row


def _check_include(request: web.Request) -> None:
    """What can be included is always there; what cannot exist is an error, as in the API."""
    for value in [*request.query.getall("include", []), *request.query.getall("include[]", [])]:
        if value not in INCLUDES:
            raise wrong_value("include", value, INCLUDES)


def _starting_after(request: web.Request) -> int:
    text = request.query.get("starting_after")
    if text is None:
        return -1
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_NUMBER_DIGITS):
        raise RequestError(
            "Invalid 'starting_after': expected a sequence number.",
            code="invalid_value",
            param="starting_after",
        )
    return int(text)


def _unknown(id: str) -> RequestError:
    return RequestError(f"Response with id '{id}' not found.", status=404)


def _limit(text: str | None) -> int:
    if text is None:
        return PAGE
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:4]) <= MAX_PAGE):
        raise RequestError(
            f"Invalid 'limit': expected an integer from 1 to {MAX_PAGE}.",
            code="invalid_value",
            param="limit",
        )
    return int(text)


def _listed(row: Row) -> list[JSON]:
    suffix = row.id.removeprefix("resp_")
    return [
        item
        if item.get("id")
        else {"id": f"{_PREFIXES.get(item['type'], 'item')}_{suffix}_{index}", **item}
        for index, item in enumerate(row.input)
    ]
