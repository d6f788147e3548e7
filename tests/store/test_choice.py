"""Which store a URL names, and where the default one lies."""

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.config import ConfigError, StoreConfig, load
from gateway.store.choice import choose_store, default_path
from gateway.store.memory import MemoryStore
from gateway.store.protocol import StoreError
from gateway.store.sqlite import SqliteStore


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"STATE_DIRECTORY": "/var/lib/gw", "XDG_STATE_HOME": "/x"}, "/var/lib/gw/responses.db"),
        ({"STATE_DIRECTORY": "/var/lib/gw:/var/lib/more"}, "/var/lib/gw/responses.db"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "/x/responses-gateway/responses.db"),
        ({"XDG_STATE_HOME": "x", "HOME": "/h"}, "/h/.local/state/responses-gateway/responses.db"),
        ({"HOME": "/h"}, "/h/.local/state/responses-gateway/responses.db"),
    ],
)
def test_where_the_default_store_lies(environ: dict[str, str], path: str) -> None:
    assert default_path(environ) == Path(path)
    store = choose_store(StoreConfig(url="sqlite"), environ)
    assert isinstance(store, SqliteStore)
    assert store.path == Path(path)


def test_without_a_home_a_path_is_asked_for() -> None:
    with pytest.raises(StoreError, match="sqlite:PATH"):
        default_path({"HOME": ""})


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:/srv/a.db", "/srv/a.db"),
        ("sqlite:a.db", "a.db"),
        ("sqlite:///srv/a.db", "/srv/a.db"),
        ("sqlite:~/a.db", str(Path.home() / "a.db")),
    ],
)
def test_a_path(url: str, path: str) -> None:
    store = choose_store(StoreConfig(url=url), {})
    assert isinstance(store, SqliteStore)
    assert store.path == Path(path)


@pytest.mark.parametrize("url", ["", "memory"])
def test_memory(url: str) -> None:
    assert isinstance(choose_store(StoreConfig(url=url), {}), MemoryStore)


@pytest.mark.parametrize(
    "url", ["disk", "sqlite:", "mysql://h/d", "postgresql:", "sqlite:~nobody-here/a"]
)
def test_what_names_no_store(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        choose_store(StoreConfig(url=url), {})
    assert url.partition(":")[2] in caught.value.reason


def test_postgresql_without_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "gateway.store.postgres", raising=False)
    real = builtins.__import__

    def without_asyncpg(name: str, *rest: Any) -> Any:
        if name == "asyncpg":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_asyncpg)
    with pytest.raises(StoreError, match=r"responses-gateway\[postgres\]"):
        choose_store(StoreConfig(url="postgresql://h/d"), {})


@pytest.mark.parametrize("text", ["30", "0d", "-1d", "30m", "30 d", "d", "1e3d", "99999999d"])
def test_a_retention_that_is_none(text: str) -> None:
    with pytest.raises(ConfigError, match="RETENTION"):
        load(None, {"RESPONSES_GATEWAY_STORE_RETENTION": text})


def test_retention_and_size_are_settings() -> None:
    environ = {
        "RESPONSES_GATEWAY_STORE_RETENTION": "12h",
        "RESPONSES_GATEWAY_STORE_MAX_BYTES": "2000000",
    }
    store = load(None, environ).store
    assert (store.retention, store.max_bytes) == ("12h", 2_000_000)
