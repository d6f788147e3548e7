"""The table of routes, and what is the same for all of them: ids, and errors in the API's shape."""

import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from gateway.codex.catalog import catalog
from gateway.errors import GatewayError, RequestError
from gateway.server.about import upstream_of
from gateway.server.access import OPEN_PATHS
from gateway.server.compact import compact
from gateway.server.facts import log_refusal
from gateway.server.http import create_response, json_response
from gateway.server.keys import (
    ACCESS,
    BODY_LIMIT,
    CONNECTIONS,
    METRICS,
    OWNER,
    RELAY,
    REQUEST_ID,
    SETTINGS,
    TARGETS,
)
from gateway.server.onlookers import asks_to_be_recorded
from gateway.server.relay import new_id, public_error
from gateway.server.status import show_data, show_page
from gateway.server.stored import (
    cancel_response,
    count_input_tokens,
    delete_response,
    get_response,
    list_input_items,
)
from gateway.server.watching import CALLER, caller_of
from gateway.server.websocket import Connection, open_socket

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


async def list_models(request: web.Request) -> web.Response:
    """`GET /v1/models`: OpenAI's list and Codex's catalogue in one body; each client reads its own key."""
    target = await request.app[TARGETS].current()
    data = [
        {"id": id, "object": "model", "created": 0, "owned_by": target.profile.name}
        for id in target.models
    ]
    entries = catalog(target.models, target.found.windows)
    return json_response({"object": "list", "data": data, "models": entries})


async def healthz(request: web.Request) -> web.Response:
    """This process answers."""
    return json_response({"status": "ok"})


async def readyz(request: web.Request) -> web.Response:
    """A turn could be served and kept: the model server answers, and the store takes writes."""
    target = await request.app[TARGETS].current()
    about = upstream_of(request, target)
    if not target.found.reachable:
        return json_response({"status": "the model server does not answer", **about}, 503)
    if not await request.app[RELAY].store_health.is_ready():
        return json_response({"status": "the store takes no writes", **about}, 503)
    return json_response({"status": "ok", **about})


async def show_metrics(request: web.Request) -> web.Response:
    """`GET /metrics`, for Prometheus."""
    connections: set[Connection] = request.app[CONNECTIONS]
    metrics = request.app[METRICS]
    metrics.show_open(*open_now(connections))
    body, content_type = metrics.page(request.headers.get("Accept", ""))
    return web.Response(body=body, headers={"Content-Type": content_type})


def open_now(connections: set[Connection]) -> tuple[int, int]:
    """How many sockets are open, and how many lanes they have."""
    return len(connections), sum(connection.lanes for connection in connections)


ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("POST", "/v1/responses", create_response),
    ("GET", "/v1/responses", open_socket),
    ("POST", "/v1/responses/compact", compact),
    ("POST", "/v1/responses/input_tokens", count_input_tokens),
    ("GET", "/v1/responses/{id}", get_response),
    ("DELETE", "/v1/responses/{id}", delete_response),
    ("POST", "/v1/responses/{id}/cancel", cancel_response),
    ("GET", "/v1/responses/{id}/input_items", list_input_items),
    ("GET", "/v1/models", list_models),
    ("GET", "/healthz", healthz),
    ("GET", "/readyz", readyz),
    ("GET", "/metrics", show_metrics),
    ("GET", "/status", show_page),
    ("GET", "/status.json", show_data),
)


@web.middleware
async def name_request(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request its id."""
    request[REQUEST_ID] = new_id("req")
    return await handler(request)


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give the request its owner, or turn it away before anything of it is read."""
    access = request.app[ACCESS]
    grant = access.enter(request)
    request[OWNER] = grant.owner
    CALLER.set(caller_of(request, records=asks_to_be_recorded(request, grant.may_record)))
    limit = request.app[SETTINGS].max_body_bytes
    request[BODY_LIMIT] = min(limit, grant.max_body_bytes or limit)
    if "Upgrade" in request.headers and request.path not in OPEN_PATHS:
        with access.socket(grant.owner):
            return await handler(request)
    return await handler(request)


@web.middleware
async def api_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whatever goes wrong before an answer has begun is an error of the API's shape."""
    try:
        return await handler(request)
    except GatewayError as error:
        log_refusal(error, request[REQUEST_ID])
        return _error_response(error)
    except web.HTTPException as raised:
        if raised.status < 400:
            raise
        return _error_response(_of_http(request, raised))
    except ConnectionError:
        raise  # the client is gone while its body was read: nobody to answer
    except Exception as bug:  # the edge of the process: one request fails, not the gateway
        return _error_response(public_error(bug))


def _error_response(error: GatewayError) -> web.Response:
    return json_response(error.body(), error.status, error.headers)


def _of_http(request: web.Request, raised: web.HTTPException) -> RequestError:
    words = {
        404: f"Unknown path: {request.method} {request.path}.",
        405: f"{request.method} is not allowed on {request.path}.",
    }
    allow = raised.headers.get("Allow")
    return RequestError(
        words.get(raised.status, f"{raised.reason}."),
        status=raised.status,
        headers={"Allow": allow} if allow else None,
    )


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """A signal, since a stream's headers leave long before its handler returns."""
    response.headers["Server"] = "responses-gateway"
    response.headers["x-request-id"] = request.get(REQUEST_ID, "") or new_id("req")


def add_routes(app: web.Application) -> None:
    """Put the table into an application."""
    for method, path, handler in ROUTES:
        app.router.add_route(method, path, handler)
    app.on_response_prepare.append(add_headers)
