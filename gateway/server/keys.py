"""The names under which the application, and a request, keep what handlers need."""

from typing import TYPE_CHECKING

from aiohttp import web

from gateway.config import ServerConfig
from gateway.server.access import Access
from gateway.server.background import Background
from gateway.server.metrics import Metrics
from gateway.server.relay import Relay
from gateway.server.target import Targets
from gateway.store.protocol import Store

if TYPE_CHECKING:
    from gateway.server.websocket import Connection

RELAY = web.AppKey("relay", Relay)
BACKGROUND = web.AppKey("background", Background)
STORE: web.AppKey[Store] = web.AppKey("store")
TARGETS = web.AppKey("targets", Targets)
SETTINGS = web.AppKey("settings", ServerConfig)
ACCESS = web.AppKey("access", Access)
METRICS = web.AppKey("metrics", Metrics)
# The sockets that are open, to be told when the gateway leaves.
CONNECTIONS: "web.AppKey[set[Connection]]" = web.AppKey("connections")

# Whose request it is. Everybody is "" until keys are asked for.
OWNER = web.RequestKey("owner", str)
# How large its body may be.
BODY_LIMIT = web.RequestKey("body_limit", int)
# Its `x-request-id`.
REQUEST_ID = web.RequestKey("request_id", str)
