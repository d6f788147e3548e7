"""Which store a URL names, and where the file of the default one lies."""

from collections.abc import Mapping
from pathlib import Path

from gateway.config import StoreConfig
from gateway.store.memory import MemoryStore
from gateway.store.protocol import Store, StoreError
from gateway.store.retention import Retention, seconds_of
from gateway.store.sqlite import SqliteStore

FILE_NAME = "responses.db"


def choose_store(config: StoreConfig, environ: Mapping[str, str]) -> Store:
    """The store of these settings; "" is one in memory.

    Raises:
        StoreError: there is none of that name, or it cannot be had here.
    """
    url = config.url
    retention = Retention(seconds_of(config.retention), config.max_bytes)
    kind, _, rest = url.partition(":")
    if url in ("", "memory"):
        return MemoryStore(retention_seconds=retention.seconds)
    if url == "sqlite":
        return SqliteStore(default_path(environ), retention)
    if kind == "sqlite" and rest:
        return SqliteStore(_expanded(rest), retention)
    if kind in ("postgresql", "postgres") and rest.startswith("//"):
        return _postgres(url, retention)
    raise StoreError(
        f"The store {url!r} is not known: write memory, sqlite, sqlite:PATH or postgresql://…"
    )


def default_path(environ: Mapping[str, str]) -> Path:
    """The file in systemd's state directory, else in the user's.

    Raises:
        StoreError: there is no such directory.
    """
    if given := environ.get("STATE_DIRECTORY"):
        return Path(given.split(":")[0]) / FILE_NAME  # systemd.exec: several are set apart by ":"
    state = environ.get("XDG_STATE_HOME", "")
    if not state.startswith("/"):  # the specification: a relative path is to be ignored
        home = environ.get("HOME", "")
        if not home.startswith("/"):
            raise StoreError(
                "There is no home directory for the store: name a --store sqlite:PATH."
            )
        state = f"{home}/.local/state"
    return Path(state) / "responses-gateway" / FILE_NAME


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise StoreError(
            f"Nobody has the home directory in {text!r}: write the path out."
        ) from None


def _postgres(url: str, retention: Retention) -> Store:
    try:
        from gateway.store.postgres import PostgresStore
    except ImportError:
        raise StoreError(
            "PostgreSQL needs one more package: pip install 'responses-gateway[postgres]'."
        ) from None
    return PostgresStore(url, retention)
