"""`POST /v1/responses/compact`: the compaction of a trigger, answered as a window instead of a response.

Codex before 0.171 asks for it; what comes back is the next request's input, to be sent as it is.
"""

from aiohttp import web

from gateway.errors import UpstreamError
from gateway.server.body import read_json
from gateway.server.http import BLOCKING, json_response
from gateway.server.keys import BODY_LIMIT, OWNER, RELAY, REQUEST_ID
from gateway.server.parent import Parent
from gateway.server.relay import new_id
from gateway.turn.compaction import TRIGGER
from gateway.wire.json import JSON
from gateway.wire.request import check_request


async def compact(request: web.Request) -> web.Response:
    """The user's messages, then the one item that stands for everything else."""
    relay, owner = request.app[RELAY], request[OWNER]
    body = check_request(await read_json(request, request[BODY_LIMIT]))
    previous_id = body.get("previous_response_id")
    parent = await relay.stored_parent(previous_id, owner) if previous_id else Parent()
    items = parent.history.new_items(body)
    if not items or items[-1].get("type") != TRIGGER:
        items = [*items, {"type": TRIGGER}]
    # It is no response that could be read again, and it is asked for as a whole.
    asked = {**body, "input": items, "stream": False, "store": False}
    label = f"json {request[REQUEST_ID]}"
    outcome = await relay.serve(asked, parent, BLOCKING, owner=owner, label=label)
    response = outcome.response
    if response["status"] != "completed":
        error = response["error"] or {"message": "Compaction failed.", "code": None}
        raise outcome.error or UpstreamError(error["message"], code=error["code"])
    users = [_window_message(item) for item in (*parent.history.items, *items) if _is_user(item)]
    return json_response(
        {
            "id": response["id"],
            "object": "response.compaction",
            "created_at": response["created_at"],
            "output": [*users, *response["output"]],
            "usage": response["usage"],
        }
    )


def _is_user(item: JSON) -> bool:
    return item.get("type") == "message" and item.get("role") == "user"


def _window_message(item: JSON) -> JSON:
    """A user's message with an id and with parts, as every item of an output has them."""
    content = item["content"]
    parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
    parts = [
        {"type": "input_text", "text": part["text"]} if part.get("type") == "text" else part
        for part in parts
    ]
    return {"id": new_id("msg"), "status": "completed", **item, "content": parts}
