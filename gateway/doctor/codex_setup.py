"""Whether the Codex on this machine uses the gateway, and is told what it must know."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.codex.home import codex_home
from gateway.codex.setup import CONFIG_FILE
from gateway.codex.toml_text import PROVIDERS, BadToml, parse
from gateway.doctor.bench import broken, degraded, ok
from gateway.doctor.findings import Finding
from gateway.wire.json import JSON, MalformedJSON, loads

NAME: Final = "codex setup"
_WRITE: Final = "responses-gateway codex --write"
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})


def check(url: str, model: str, environ: Mapping[str, str]) -> Finding:
    """The finding for the client's side.

    Args:
        url: the gateway, ending in /v1.
        model: the one that is asked; "" when none is known.
        environ: the environment.
    """
    home = codex_home(environ)
    path = home / CONFIG_FILE
    try:
        settings = parse(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return degraded(NAME, "client", f"Codex knows no gateway: there is no {path}", _WRITE)
    except BadToml as error:
        advice = "mend that line: Codex does not start with it"
        return broken(NAME, "client", f"{path} is no TOML: {error}", advice)
    except (OSError, UnicodeDecodeError) as error:
        return broken(NAME, "client", f"{path} cannot be read: {error}", "mend that")
    providers = settings.get(PROVIDERS)
    named = (
        {k: v for k, v in providers.items() if isinstance(v, dict)}
        if isinstance(providers, dict)
        else {}
    )
    ours = next((n for n, p in named.items() if _same(str(p.get("base_url", "")), url)), None)
    if ours is None:
        return _elsewhere(path, named, url)
    return _provider(home, settings, ours, named[ours], model, environ)


def _elsewhere(path: Path, providers: Mapping[str, JSON], url: str) -> Finding:
    for name, provider in providers.items():
        if name == "gateway" or provider.get("name") == "responses-gateway":
            reason = (
                f"{path}: the provider {name!r} points at {provider.get('base_url')}, not at {url}"
            )
            return broken(NAME, "client", reason, f"{_WRITE} --url {url}")
    return degraded(NAME, "client", f"{path} has no provider for {url}", _WRITE)


def _provider(
    home: Path, settings: JSON, name: str, provider: JSON, model: str, environ: Mapping[str, str]
) -> Finding:
    """The table of the provider, then the catalogue that goes with it."""
    if provider.get("wire_api", "responses") != "responses":
        reason = (
            f"the provider {name!r} has wire_api = {provider['wire_api']!r}, which Codex refuses"
        )
        return broken(NAME, "client", reason, 'write wire_api = "responses"')
    key = str(provider.get("env_key") or "")
    if key and not environ.get(key):
        reason = f"the provider {name!r} wants its key in {key}, which is not set here"
        return broken(NAME, "client", reason, f"export {key} before Codex starts")
    found = _catalogues(home, settings, name)
    if (finding := _catalogue(found, name, provider, key, model)) is not None:
        return finding
    if provider.get("supports_websockets") is not True:
        reason = f"the provider {name!r} does not use WebSocket: each turn sends its whole history"
        return degraded(NAME, "client", reason, "write supports_websockets = true")
    return ok(NAME, f"the provider {name!r} in {home / CONFIG_FILE} uses this gateway")


def _catalogue(
    files: Mapping[str, Path], name: str, provider: JSON, key: str, model: str
) -> Finding | None:
    """What is wrong with the catalogue, if anything."""
    for where, path in files.items():
        try:
            entries = loads(path.read_bytes())["models"]
            slugs = {entry["slug"]: entry for entry in entries}
        except (OSError, MalformedJSON, KeyError, TypeError):
            reason = f"{where} names the catalogue {path}, which is missing or damaged: Codex does not start"
            return broken(NAME, "client", reason, _WRITE)
        if model and model not in slugs:
            reason = f"{where}: the catalogue {path} does not know {model!r}"
            return degraded(NAME, "client", reason, f"{_WRITE}, which asks for the models again")
        if model and slugs[model].get("apply_patch_tool_type") != "freeform":
            reason = f"{path}: without apply_patch_tool_type Codex does not declare apply_patch"
            return degraded(NAME, "client", reason, _WRITE)
    fetches = "model_catalog_url" in provider and (key or "experimental_bearer_token" in provider)
    if not files and not fetches:
        reason = f"the provider {name!r} has no catalogue: Codex declares neither apply_patch nor tool_search"
        return degraded(NAME, "client", reason, _WRITE)
    return None


def _catalogues(home: Path, settings: JSON, provider: str) -> Mapping[str, Path]:
    """Where a catalogue is named for that provider: as the default, and in profiles."""
    return {
        where: Path(str(found["model_catalog_json"])).expanduser()
        for where, found in _layers(home, settings)
        if found.get("model_provider") == provider and "model_catalog_json" in found
    }


def _layers(home: Path, settings: JSON) -> Iterator[tuple[str, dict[str, Any]]]:
    yield CONFIG_FILE, settings
    for path in sorted(home.glob(f"*.{CONFIG_FILE}")):
        try:
            yield path.name, parse(path.read_text(encoding="utf-8"))
        except (BadToml, OSError, UnicodeDecodeError):
            continue


def _same(one: str, other: str) -> bool:
    """Whether two URLs are one gateway: a machine has several names for itself."""
    try:
        return _place(one) == _place(other)
    except ValueError:
        return False


def _place(url: str) -> tuple[str, str, int | None, str]:
    parts = urlsplit(url)
    host = "localhost" if parts.hostname in _LOCAL else parts.hostname or ""
    return parts.scheme, host, parts.port, parts.path.rstrip("/")
