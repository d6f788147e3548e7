"""What Codex needs to use the gateway, as the texts of three files below its home.

`config.toml` gets the provider; a profile (`codex -p NAME`, a file of its own since before 0.147) and a
catalogue stand beside it.

Both ways to a catalogue are used (codex-cli 0.171 and 0.147, measured): the profile names a JSON file,
which both versions read and which wins; the provider has `model_catalog_url`, which only newer ones
read, for those who choose the provider without the profile. It is fetched only with some key set.
"""

from pathlib import Path

import msgspec

from gateway.codex import toml_text
from gateway.wire.json import JSON, dumps_str

DEFAULT_NAME = "gateway"
CONFIG_FILE = "config.toml"
# Codex sends it to a gateway that asks for none: without a key it fetches no catalogue (0.171).
NO_KEY = "none"


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be set up.

    Attributes:
        url: the gateway, ending in /v1.
        models: its catalogue's entries; empty when nobody could tell.
        name: of the provider and of the profile.
        key_env: the environment variable with the gateway's key; "" for a gateway without keys.
        default: Codex shall use it without being asked.
    """

    url: str
    models: list[JSON] = []
    name: str = DEFAULT_NAME
    key_env: str = ""
    default: bool = False


def v1(url: str) -> str:
    """A gateway's URL as Codex wants it: with /v1, and an address that can be connected to."""
    url = url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:").rstrip("/")
    return url if url.endswith("/v1") else f"{url}/v1"


def provider(wanted: Wanted) -> JSON:
    """The table of `model_providers`."""
    key = {"env_key": wanted.key_env} if wanted.key_env else {"experimental_bearer_token": NO_KEY}
    return {
        "name": "responses-gateway",
        "base_url": wanted.url,
        "wire_api": "responses",
        "supports_websockets": True,
        "model_catalog_url": f"{wanted.url}/models",
        **key,
    }


def profile(wanted: Wanted, catalog: Path | None) -> JSON:
    """The settings of the profile: they choose the provider, a model of it, and its catalogue."""
    settings: JSON = {}
    if wanted.models:
        settings["model"] = wanted.models[0]["slug"]
    settings["model_provider"] = wanted.name
    if wanted.models and catalog is not None:
        settings["model_catalog_json"] = str(catalog)
    return settings


def provider_lines(wanted: Wanted) -> str:
    """A whole config.toml, for a terminal: the default model, and the provider with its URL."""
    settings = {"model": "MODEL", **profile(wanted, None)}
    header = f"{toml_text.PROVIDERS}.{wanted.name}"
    return f"{toml_text.table('', settings)}\n{toml_text.table(header, provider(wanted))}"


def render(home: Path, wanted: Wanted) -> dict[str, str]:
    """Every file's text as `write` makes it on an empty home, by name."""
    texts = {}
    if wanted.models:
        texts[file_names(wanted.name)[1]] = catalog_text(wanted)
    top = profile(wanted, home / file_names(wanted.name)[1])
    texts[file_names(wanted.name)[0]] = toml_text.table("", top)
    texts[CONFIG_FILE], _ = toml_text.add(
        "", wanted.name, provider(wanted), top_settings(wanted, top)
    )
    return dict(reversed(texts.items()))


def file_names(name: str) -> tuple[str, str]:
    """The files beside config.toml: Codex finds the profile by its name."""
    return f"{name}.config.toml", f"{name}-models.json"


def top_settings(wanted: Wanted, settings: JSON) -> JSON:
    return settings if wanted.default else {}


def catalog_text(wanted: Wanted) -> str:
    return msgspec.json.format(dumps_str({"models": wanted.models}), indent=1) + "\n"
