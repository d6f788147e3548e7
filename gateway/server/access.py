"""Who may come in, as whom, and how much at once.

Without keys everybody on this machine may, and nobody else can: the gateway listens on 127.0.0.1
only. With keys a request shows one, and what it stores belongs to that key.
"""

import base64
import binascii
import ipaddress
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from aiohttp import web

from gateway.config import AccessConfig, Config, ConfigError
from gateway.errors import GatewayError, RequestError
from gateway.server.keyfile import Key, KeyFile
from gateway.server.pages import PageRules

# Turns last seconds to minutes; a place is free again at any moment.
RETRY_AFTER_SECONDS = 2
# Open to everybody: what watches the process has no key.
# The status page holds nothing: what it shows it asks for, with a key.
OPEN_PATHS = ("/healthz", "/status")
# Where a person with a browser may give the key as a password.
BROWSER_PATHS = ("/metrics",)


class Grant(msgspec.Struct, frozen=True):
    """What a request may do.

    Attributes:
        owner: id of the key; "" without keys.
        max_body_bytes: of its body, and of the messages of its socket; None as for everybody.
        may_record: it may ask to be recorded.
    """

    owner: str = ""
    max_body_bytes: int | None = None
    may_record: bool = True


class Access:
    """The door.

    Args:
        config: all settings.
        refused: is told the reason of each refusal, a word of a small table.
        now: the time by which keys expire.

    Raises:
        ConfigError: the keys file cannot be used.
    """

    def __init__(
        self,
        config: Config,
        refused: Callable[[str], None] = lambda reason: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        access = config.access
        self._settings = access
        self._keys = KeyFile(Path(access.keys_file)) if access.keys_file else None
        self._pages = PageRules(config.server.host, access.hosts, access.origins)
        self._refused = refused
        self._now = now
        self._sockets: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()

    @property
    def asks_for_keys(self) -> bool:
        """Whether a request must show one."""
        return self._keys is not None

    def enter(self, request: web.Request) -> Grant:
        """Look at a request before anything of it is read.

        Raises:
            RequestError: 403 for another site's page, 401 without a good key.
        """
        if request.path in OPEN_PATHS:
            return Grant()
        try:
            self._pages.check_host(request.headers)
            self._pages.check_origin(request.method, request.headers)
            return self._identify(request)
        except RequestError as error:
            self._refused(error.code or "no_api_key")
            raise

    @contextmanager
    def turn(self, owner: str) -> Iterator[None]:
        """Hold a place for one of an owner's turns.

        Raises:
            GatewayError: 429 when it has too many, 401 when the key has been taken away since.
        """
        with self._place(self._turns, owner, "responses in flight", _max_turns):
            yield

    @contextmanager
    def socket(self, owner: str) -> Iterator[None]:
        """Hold a place for one of an owner's sockets.

        Raises:
            GatewayError: 429 when it has too many.
        """
        with self._place(self._sockets, owner, "open WebSocket connections", _max_sockets):
            yield

    @contextmanager
    def _place(
        self,
        taken: Counter[str],
        owner: str,
        what: str,
        limit_of: Callable[[Key, AccessConfig], int],
    ) -> Iterator[None]:
        if self._keys is None:
            yield
            return
        key = self._keys.owned_by(owner)
        if key is None or key.is_expired(self._now()):
            # A socket outlives the check at its door; its next turn does not.
            self._refused("invalid_api_key")
            raise _bad_key("The API key of this connection is no longer valid.")
        limit = limit_of(key, self._settings)
        if limit and taken[owner] >= limit:
            self._refused("rate_limit_exceeded")
            raise _too_many(what, limit, taken[owner])
        taken[owner] += 1
        try:
            yield
        finally:
            taken[owner] -= 1
            if not taken[owner]:
                del taken[owner]

    def _identify(self, request: web.Request) -> Grant:
        if self._keys is None:
            return Grant()
        presented = _presented(request)
        if presented is None:
            raise _no_key(request)
        key = self._keys.find(presented)
        if key is None:
            raise _bad_key("Incorrect API key provided.")
        if key.is_expired(self._now()):
            raise _bad_key(
                f"The API key expired on {key.expires:%Y-%m-%d}. Ask the operator for a new one."
            )
        return Grant(key.owner, key.max_body_bytes, key.record)


def check_exposure(config: Config, host: str | None = None) -> None:
    """Whether it may listen there: beyond this machine only with keys, and not in the clear.

    Args:
        config: all settings.
        host: the address of a socket that was bound by somebody else.

    Raises:
        ConfigError: in words that say what to do.
    """
    host = config.server.host if host is None else host
    if is_local(host):
        return
    where = f"Listening on {host or 'every address'}"
    if not config.access.keys_file:
        raise ConfigError(
            f"{where} needs API keys: make one with 'responses-gateway key new NAME --keys FILE' "
            "and start with --keys FILE."
        )
    if not config.server.tls_cert and not config.access.insecure:
        raise ConfigError(
            f"{where} without TLS would send keys in the clear: set server.tls_cert and "
            "server.tls_key, or say --insecure where a proxy or the network encrypts."
        )


def is_local(host: str) -> bool:
    """Whether only this machine reaches that address. A name counts by all that it stands for."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        pass
    if not host:
        return False
    try:
        found = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    except OSError:
        return True  # there is no such address: binding says so, in better words
    return all(ipaddress.ip_address(address).is_loopback for address in found)


def _presented(request: web.Request) -> str | None:
    """The key that a request shows. Never out of the URL: those stand in logs and histories."""
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    value = value.strip()
    if scheme.lower() == "bearer" and value:
        return value
    if scheme.lower() == "basic" and request.path in BROWSER_PATHS:
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return None
    return None


def _no_key(request: web.Request) -> RequestError:
    basic = request.path in BROWSER_PATHS
    scheme = 'Basic realm="responses-gateway"' if basic else "Bearer"
    return RequestError(
        "You didn't provide an API key. You need to provide your API key in an Authorization "
        "header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        status=401,
        headers={"WWW-Authenticate": scheme},
    )


def _bad_key(message: str) -> RequestError:
    """It never repeats the key, not even its ends: errors stand in logs."""
    return RequestError(message, status=401, code="invalid_api_key")


def _too_many(what: str, limit: int, used: int) -> GatewayError:
    # Codex 0.171 waits as long as the words say ("try again in 2s").
    return GatewayError(
        f"Rate limit reached for {what} of this API key: Limit {limit}, Used {used}. "
        f"Please try again in {RETRY_AFTER_SECONDS}s.",
        status=429,
        type="requests",
        code="rate_limit_exceeded",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


def _max_turns(key: Key, settings: AccessConfig) -> int:
    return settings.max_turns if key.max_turns is None else key.max_turns


def _max_sockets(key: Key, settings: AccessConfig) -> int:
    return settings.max_sockets if key.max_sockets is None else key.max_sockets
