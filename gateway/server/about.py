"""What the gateway tells callers on its own machine of the model server behind it, for `doctor`.

Others are told nothing: the address of a model server is no business of whoever may reach the gateway.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from aiohttp import web

from gateway.server.target import Target
from gateway.wire.json import JSON

# A proxy on this machine speaks for others; each known one adds one of these.
_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via")


def upstream_of(request: web.Request, target: Target) -> JSON:
    """`{"upstream": …}` for a caller on this machine, else nothing."""
    if not _is_local(request):
        return {}
    found, profile = target.found, target.profile
    return {
        "upstream": {
            "url": without_password(target.upstream_url),
            "reachable": found.reachable,
            "api": profile.dialect,
            "profile": profile.name,
            "how": found.how,
            # Public name -> the server's own.
            "models": {model: target.turn_options(model).model for model in target.models},
            "windows": dict(found.windows),
            "pattern": profile.pattern,
            "stream": profile.stream,
        }
    }


def _is_local(request: web.Request) -> bool:
    try:
        address = ip_address(request.remote or "")
    except ValueError:
        return False
    return address.is_loopback and not any(name in request.headers for name in _FORWARDED)


def without_password(url: str) -> str:
    """A URL as it may be shown."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
