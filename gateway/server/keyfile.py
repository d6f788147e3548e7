"""The file of API keys: names, hashes and limits, never a key; read again when it has changed.

    [alice]
    sha256 = "9f86d081…"            # of the key
    expires = 2027-01-31            # optional, as is all that follows: a date, or a date with a time
    max_sockets = 8
    max_turns = 4
    max_body_bytes = 1048576
    record = true

A plain SHA-256 is right here: keys are 256 random bits, which nobody finds by trying, however fast
the hash is. A slow hash protects what people can remember, and would cost each request 100 ms.
"""

import base64
import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
import tempfile
import time
import tomllib
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import msgspec
import tomlkit
from msgspec import Meta
from tomlkit.exceptions import TOMLKitError

from gateway.config import ConfigError

log = logging.getLogger(__name__)

# Makes a key recognisable: to the redaction of logs, and to scanners that look for leaked keys.
KEY_PREFIX = "rgw_"
KEY_BYTES = 32
# Every key is compared at each request: 1,000 take 0.05 ms.
MAX_KEYS = 1_000
# How often it is looked whether the file has changed.
RELOAD_SECONDS = 1.0
# Hex digits of a key's hash that name its owner in the store: 128 bits never meet by chance.
OWNER_CHARS = 32

_is_name = re.compile(r"[A-Za-z0-9_-]{1,64}").fullmatch


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of the file.

    Attributes:
        sha256: of the key, in hex.
        expires: the first moment at which it is no longer taken; a date means its midnight in UTC.
        max_sockets: open at once; None as the settings say, 0 without a limit.
        max_turns: in flight at once; likewise.
        max_body_bytes: of one request or message; None as the settings say.
        record: its requests may ask to be recorded.
    """

    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    expires: datetime | None = None
    max_sockets: Annotated[int, Meta(ge=0)] | None = None
    max_turns: Annotated[int, Meta(ge=0)] | None = None
    max_body_bytes: Annotated[int, Meta(ge=1024)] | None = None
    record: bool = False

    @property
    def owner(self) -> str:
        """Whose responses are whose: by the key itself, so that a name that is given to somebody
        else does not hand over what its first bearer has stored, and a renamed key keeps all."""
        return self.sha256[:OWNER_CHARS]

    def is_expired(self, now: datetime) -> bool:
        """Whether its time is over."""
        return self.expires is not None and now >= self.expires


class KeyFile:
    """The keys in force.

    Args:
        path: of the file.
        clock: seconds that never go back.

    Raises:
        ConfigError: the file cannot be used.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._stamp = _stamp(path)
        self._keys = read_keys(path)
        self._looked_at = clock()

    def find(self, presented: str) -> Key | None:
        """The key that was presented, expired or not; None when there is none like it."""
        digest = hash_key(presented)
        found = None
        for key in self.keys().values():
            # All of them, each in constant time: how long it takes says nothing about any.
            if hmac.compare_digest(key.sha256, digest):
                found = key
        return found

    def owned_by(self, owner: str) -> Key | None:
        """The key of an owner, as the file has it now."""
        return next((key for key in self.keys().values() if key.owner == owner), None)

    def keys(self) -> Mapping[str, Key]:
        """All keys by name. A file that has become unusable leaves the old ones in force."""
        now = self._clock()
        if now - self._looked_at >= RELOAD_SECONDS:
            self._looked_at = now
            stamp = _stamp(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                self._reload()
        return self._keys

    def _reload(self) -> None:
        try:
            self._keys = read_keys(self._path)
            log.info("%s read again: %d keys", self._path, len(self._keys))
        except ConfigError as error:
            log.error("the keys stay as they were: %s", error)


def hash_key(key: str) -> str:
    """What the file has of a key."""
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def read_keys(path: Path) -> dict[str, Key]:
    """All keys of a file by name.

    Raises:
        ConfigError: one sentence that says what to change. It quotes no line of the file: somebody
            may have put a key there instead of its hash.
    """
    try:
        if path.stat().st_mode & stat.S_IWOTH:
            raise ConfigError(f"Everybody may write to the keys file {path}: chmod o-w it.")
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"The keys file {path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"The keys file {path} is not UTF-8 text.") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"The keys file {path} is not TOML: {_place(error)}.") from None
    if len(tables) > MAX_KEYS:
        raise ConfigError(f"The keys file {path} has more than {MAX_KEYS} keys.")
    keys = {name: _key(path, name, table) for name, table in tables.items()}
    if len({key.sha256 for key in keys.values()}) < len(keys):
        raise ConfigError(f"The keys file {path} has one key under two names: take one out.")
    return keys


def add_key(path: Path, name: str, expires: date | None = None) -> str:
    """Make a key and put its hash into the file, which keeps its comments and its order.

    Returns:
        The key. Nothing else ever has it.

    Raises:
        ConfigError: the name is taken or no name, or the file cannot be used.
    """
    if not _is_name(name):
        raise ConfigError(f"{name!r} cannot be a key's name: take letters, digits, '_' and '-'.")
    if path.exists() and name in read_keys(path):
        raise ConfigError(f"{path} has a key {name!r}: choose another name, or take it out first.")
    key = KEY_PREFIX + base64.urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode().rstrip("=")
    table = tomlkit.table()
    table.add("sha256", hash_key(key))
    if expires is not None:
        table.add("expires", expires)
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8") if path.exists() else "")
        document.add(name, table)
        _write(path, tomlkit.dumps(document))
    except TOMLKitError:
        raise ConfigError(f"The keys file {path} is not TOML.") from None
    except OSError as error:
        raise ConfigError(f"The keys file {path} cannot be written: {error.strerror}.") from None
    return key


def expiry(text: str, today: date) -> date:
    """`2027-01-31`, or `90d` from today.

    Raises:
        ConfigError: neither.
    """
    if match := re.fullmatch(r"([1-9][0-9]{0,4})d", text):
        return today + timedelta(days=int(match[1]))
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is no time of expiry: write 90d or a date like 2027-01-31."
        ) from None


def _key(path: Path, name: str, table: Any) -> Key:
    try:
        if isinstance(table, dict) and isinstance(table.get("expires"), date):
            table = {**table, "expires": _moment(table["expires"])}
        return msgspec.convert(table, Key)
    except msgspec.ValidationError as error:
        # The path of the field and the wanted type; msgspec quotes no value.
        raise ConfigError(f"The keys file {path}, [{name}]: {error}.") from None


def _moment(expires: date) -> datetime:
    """A date is its midnight, and a time without a zone is one of UTC."""
    if not isinstance(expires, datetime):
        expires = datetime(expires.year, expires.month, expires.day, tzinfo=UTC)
    return expires if expires.tzinfo is not None else expires.replace(tzinfo=UTC)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """Differs when the file has been written, or replaced by another one."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _place(error: tomllib.TOMLDecodeError) -> str:
    found = re.search(r"\(at (.*)\)$", str(error))
    return f"see {found[1]}" if found else "see its end"


def _write(path: Path, text: str) -> None:
    """Whole or not at all: a gateway may be reading it."""
    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
