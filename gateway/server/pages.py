"""Whether a request may come from where it says: web pages must not drive a machine's gateway.

`Host` against DNS rebinding: a page of evil.example whose name has been pointed to 127.0.0.1 still
sends its own name. `Origin` against pages that simply send: browsers put it into every POST and every
WebSocket handshake of a page, and no other client sends it.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from multidict import CIMultiDictProxy

from gateway.errors import RequestError

_DEFAULT_PORTS = {"http": 80, "https": 443}
_READING = ("GET", "HEAD")


class PageRules:
    """Which hosts and origins are fine.

    Args:
        listening: the address that the gateway listens on.
        hosts: further names of it.
        origins: web pages that may use it.
    """

    def __init__(
        self, listening: str, hosts: Iterable[str] = (), origins: Iterable[str] = ()
    ) -> None:
        self._hosts = {"localhost", listening.lower(), *(host.lower() for host in hosts)}
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        self._is_wildcard = is_wildcard(listening)

    def check_host(self, headers: CIMultiDictProxy[str]) -> None:
        """Refuse names that are none of ours.

        Raises:
            RequestError: 403.
        """
        values = headers.getall("Host", [])
        if not values:
            return  # HTTP/1.0; every browser sends one
        host = _host_of(values[0]) if len(values) == 1 else None
        if host is None or not (host in self._hosts or self._is_address(host)):
            raise RequestError(
                f"This gateway is not reached by the name '{(host or values[0])[:100]}'. "
                "If it is yours, add it to access.hosts.",
                status=403,
                code="host_not_allowed",
            )

    def check_origin(self, method: str, headers: CIMultiDictProxy[str]) -> None:
        """Refuse other web sites' pages.

        Raises:
            RequestError: 403.
        """
        for origin in headers.getall("Origin", []):
            if not self._is_ours(origin.lower(), headers.get("Host", "").lower()):
                raise _foreign_page(origin)
        if "Origin" not in headers and method not in _READING:
            site = headers.get("Sec-Fetch-Site", "none")
            if site not in ("none", "same-origin"):
                raise _foreign_page("another site")

    def _is_ours(self, origin: str, host: str) -> bool:
        if origin.rstrip("/") in self._origins:
            return True
        try:
            parts = urlsplit(origin)
            port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
        except ValueError:
            return False
        # A proxy may have changed the scheme, never the name under which the page was loaded.
        named = {host} if ":" in host.rpartition("]")[2] else {f"{host}:80", f"{host}:443"}
        return parts.scheme in _DEFAULT_PORTS and f"{_bracketed(parts.hostname)}:{port}" in named

    def _is_address(self, host: str) -> bool:
        """An address cannot be rebound, and a page of that address is a page of this machine."""
        if host.endswith(".localhost"):
            return True  # RFC 6761: never leaves the machine
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return address.is_loopback or self._is_wildcard


def is_wildcard(host: str) -> bool:
    """Whether that is every address of the machine."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return host == ""


def _host_of(value: str) -> str | None:
    """The name in a Host header, without its port; None when it is malformed."""
    try:
        parts = urlsplit(f"//{value}")
        has_port = parts.port is None or parts.port >= 0
    except ValueError:
        return None
    if not has_port or "@" in value or "/" in value or not parts.hostname:
        return None
    return parts.hostname.removesuffix(".")


def _bracketed(host: str | None) -> str:
    return f"[{host}]" if host and ":" in host else host or ""


def _foreign_page(origin: str) -> RequestError:
    return RequestError(
        f"A web page of '{origin[:100]}' may not use this gateway. "
        "If it should, add its origin to access.origins.",
        status=403,
        code="origin_not_allowed",
    )
