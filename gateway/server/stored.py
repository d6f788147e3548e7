"""Stored responses over HTTP: read one, list its input, delete it."""

from typing import Final

from aiohttp import web

from gateway.errors import RequestError
from gateway.server.http import json_response
from gateway.server.keys import OWNER, STORE
from gateway.store.protocol import Row
from gateway.wire.json import JSON

# The API's own page sizes.
PAGE = 20
MAX_PAGE = 100
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


async def get_response(request: web.Request) -> web.Response:
    """`GET /v1/responses/{id}`."""
    if request.query.get("stream") == "true":
        raise RequestError(
            "Only background responses can be streamed again, and this gateway has none.",
            param="stream",
        )
    return json_response((await _find(request)).response)


async def delete_response(request: web.Request) -> web.Response:
    """`DELETE /v1/responses/{id}`."""
    id = request.match_info["id"]
    if not await request.app[STORE].delete(id, request[OWNER]):
        raise _unknown(id)
    return json_response({"id": id, "object": "response", "deleted": True})


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


async def _find(request: web.Request) -> Row:
    id = request.match_info["id"]
    row = await request.app[STORE].get(id, request[OWNER])
    if row is None:
        raise _unknown(id)
    return row


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
