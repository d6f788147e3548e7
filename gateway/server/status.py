"""The status page: one HTML file without data, and the JSON that it asks for every second.

The page may be loaded without a key, since it holds nothing; its data may not. The policy lets it run
its own script and style, known by their hashes, talk to this gateway, and nothing else.
"""

import base64
import functools
import hashlib
import os
import re
from importlib import resources

import msgspec
from aiohttp import web

from gateway import __version__
from gateway.server.about import without_password
from gateway.server.http import json_response
from gateway.server.keys import ACCESS, SETTINGS, TARGETS
from gateway.server.onlookers import ACTIVITY, RECORDER
from gateway.wire.json import JSON

# Of a server that lists hundreds.
MAX_SHOWN_MODELS = 20

_parts = re.compile(r"<(script|style)>(.*?)</\1>", re.DOTALL)


class Page(msgspec.Struct, frozen=True):
    """The page as it is served."""

    body: bytes
    policy: str


@functools.cache
def page(*, asks_for_key: bool) -> Page:
    """Read once; the policy is made from its own script and style."""
    text = resources.files("gateway.server").joinpath("status.html").read_text(encoding="utf-8")
    allowed: dict[str, list[str]] = {"script": [], "style": []}
    for kind, content in _parts.findall(text):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        allowed[kind].append(f"'sha256-{digest}'")
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(allowed['script'])}",
            f"style-src {' '.join(allowed['style'])}",
            "connect-src 'self'",
            "img-src data:",  # the icon
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        )
    )
    if asks_for_key:  # so that the page need not try without one first
        text = text.replace("<html ", '<html data-key="asked" ', 1)
    return Page(text.encode(), policy)


async def show_page(request: web.Request) -> web.Response:
    """`GET /status`."""
    shown = page(asks_for_key=request.app[ACCESS].asks_for_keys)
    return web.Response(
        body=shown.body,
        headers={
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": shown.policy,
            "Cross-Origin-Opener-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            # A newer gateway has a newer page.
            "Cache-Control": "no-cache",
        },
    )


async def show_data(request: web.Request) -> web.Response:
    """`GET /status.json?boot=…&after=N`: of the turns that are over, those behind the N-th."""
    activity = request.app[ACTIVITY]
    activity.health.look()
    after = request.query.get("after", "")
    is_known = request.query.get("boot") == activity.boot and after.isdecimal()
    recorder = request.app[RECORDER]
    body: JSON = {
        "version": __version__,
        # Each worker knows its own turns only.
        "worker": os.getpid(),
        "workers": request.app[SETTINGS].workers,
        "upstream": _upstream(request.app),
        "recording": recorder.shown() if recorder is not None else None,
        **activity.shown(int(after[:18]) if is_known else 0),
    }
    return json_response(body, headers={"Cache-Control": "no-store"})


def _upstream(app: web.Application) -> JSON:
    target = app[TARGETS].known
    health = app[ACTIVITY].health.shown()
    if target is None:
        return health
    return {
        "url": without_password(target.upstream_url),
        "dialect": target.profile.dialect,
        "profile": target.profile.name,
        "how": target.found.how,
        "models": target.models[:MAX_SHOWN_MODELS],
        **health,
    }
