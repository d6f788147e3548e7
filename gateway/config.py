"""What can be set: a TOML file, then the environment, then flags; what is unknown is an error.

One Struct a section. A value may stand in the file (`[server] port = 8790`), in the environment
(`RESPONSES_GATEWAY_SERVER_PORT=8790`, or by its flag's name, `RESPONSES_GATEWAY_PORT`), or in a
flag. Later wins.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

ENV_PREFIX = "RESPONSES_GATEWAY_"
# What Codex takes at most (codex-cli 0.171); its bodies over HTTP are the same requests.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024
# Clients give a silent stream up after 300 s; a proxy between may do so after 30 or 60.
HEARTBEAT_SECONDS = 15.0
# An error within this time can still be a status; a longer prefill must not look dead.
CREATED_AFTER_SECONDS = 10.0
# The API closes a socket after an hour (responses-api: WebSocket mode).
CONNECTION_LIMIT_MINUTES = 60.0
CONNECT_TIMEOUT_SECONDS = 10.0
# A prefill of 100k tokens without a GPU can be silent for a quarter of an hour.
IDLE_TIMEOUT_SECONDS = 1800.0
# A turn that runs at shutdown may end in this time; then it is cut.
SHUTDOWN_SECONDS = 30.0
# Some 200 000 turns of a coding agent; small for a disk, and no surprise on it.
MAX_STORE_BYTES = 4 * 1024 * 1024 * 1024
# Codex holds one socket for each agent; a session with its sub-agents stays far below.
MAX_SOCKETS = 64
# Four sockets' worth of the API's own 16; what one model server cannot work on anyway.
MAX_TURNS = 64
# A turn of a long session: its history twice, its events and the model server's bytes.
MAX_RECORDING_BYTES = 32 * 1024 * 1024
# A day of one developer; some 500 MB at the usual size of a turn.
MAX_RECORDINGS = 1_000


class ConfigError(ValueError):
    """A setting that cannot be used. The message is one sentence that says what to change."""


Port = Annotated[int, Meta(ge=0, le=65535)]
Seconds = Annotated[float, Meta(gt=0)]
Bytes = Annotated[int, Meta(ge=1024)]
Invalid = Literal["custom_call", "function_call"]


class ServerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where agents connect."""

    host: str = "127.0.0.1"
    port: Port = 8790
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    heartbeat_seconds: Seconds = HEARTBEAT_SECONDS
    created_after_seconds: Seconds = CREATED_AFTER_SECONDS
    max_message_bytes: Bytes = MAX_MESSAGE_BYTES
    max_body_bytes: Bytes = MAX_MESSAGE_BYTES
    # permessage-deflate: 0.5 ms for a 48 KB event, and nothing won on loopback.
    compress: bool = False
    # PEM files, both or none.
    tls_cert: str = ""
    tls_key: str = ""
    # 0: no limit.
    connection_limit_minutes: Annotated[float, Meta(ge=0)] = CONNECTION_LIMIT_MINUTES
    shutdown_seconds: Seconds = SHUTDOWN_SECONDS


class UpstreamConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The model server behind."""

    # Its base, ending in /v1. "" until a command has chosen one.
    url: str = ""
    api: Literal["auto", "chat", "responses"] = "auto"
    profile: str = "auto"
    # The NAME of an environment variable: a key stands in no file of ours.
    api_key_env: str = ""
    # …or a file with nothing but the key; a bare name is looked for in $CREDENTIALS_DIRECTORY (systemd).
    api_key_file: str = ""
    # Public model name -> the model server's name. Other names go through as they are.
    model: dict[str, str] = {}
    connect_timeout: Seconds = CONNECT_TIMEOUT_SECONDS
    idle_timeout: Seconds = IDLE_TIMEOUT_SECONDS


class AccessConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may use it."""

    # Hashes of API keys, as `responses-gateway key new` writes them. "": no keys, this machine only.
    keys_file: str = ""
    # Listen on another address without TLS: a proxy or the network encrypts.
    insecure: bool = False
    # Names under which clients reach it, beside loopback and its own address (DNS rebinding).
    hosts: list[str] = []
    # Web pages that may use it, such as https://chat.example.com.
    origins: list[str] = []
    # Of one key, in one worker process; a key's own values go before. 0: no limit.
    max_sockets: Annotated[int, Meta(ge=0)] = MAX_SOCKETS
    max_turns: Annotated[int, Meta(ge=0)] = MAX_TURNS


class ToolsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How tools are lowered and lifted."""

    deferred: Literal["withhold", "eager"] = "withhold"
    # None: as the profile says.
    hosted: Literal["drop", "pass", "reject"] | None = None
    invalid: Invalid = "custom_call"
    # `invalid` for one tool, by its public name.
    invalid_by_name: dict[str, Invalid] = {}
    constrain: Literal["auto", "off"] = "auto"


class StoreConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What outlives a turn."""

    # memory, sqlite, sqlite:PATH or postgresql://…; "" until a command has chosen one.
    url: str = ""
    # Since its last use a stored response is kept for so long: days or hours.
    retention: Annotated[str, Meta(pattern=r"^[1-9][0-9]{0,4}[dh]$")] = "30d"
    # All stored responses together; what was not used for longest goes first.
    max_bytes: Annotated[int, Meta(ge=1024 * 1024)] = MAX_STORE_BYTES


class RecordConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Recordings of turns, for bug reports and tests."""

    # A folder; "" records nothing.
    dir: str = ""
    # Every turn; otherwise those whose request asks for it by a header, with a key that may.
    every: bool = True
    # Of one turn. A longer one is cut.
    max_bytes: Bytes = MAX_RECORDING_BYTES
    # The oldest go first.
    max_files: Annotated[int, Meta(ge=1)] = MAX_RECORDINGS


class LogConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is written to stderr."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["human", "json"] = "human"


class Config(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings."""

    server: ServerConfig = ServerConfig()
    upstream: UpstreamConfig = UpstreamConfig()
    # Overrides of the upstream profile, checked by `upstream.profiles`.
    profile: dict[str, Any] = {}
    access: AccessConfig = AccessConfig()
    tools: ToolsConfig = ToolsConfig()
    store: StoreConfig = StoreConfig()
    record: RecordConfig = RecordConfig()
    log: LogConfig = LogConfig()


# A flag of `serve`, and the same name in the environment -> where it stands in the file.
FLAGS: dict[str, tuple[str, str]] = {
    "host": ("server", "host"),
    "port": ("server", "port"),
    "workers": ("server", "workers"),
    "upstream": ("upstream", "url"),
    "upstream_api": ("upstream", "api"),
    "profile": ("upstream", "profile"),
    "store": ("store", "url"),
    "record": ("record", "dir"),
    "keys": ("access", "keys_file"),
    "insecure": ("access", "insecure"),
}
# Read by the command line itself; it is no key of the file.
CONFIG_VARIABLE = ENV_PREFIX + "CONFIG"


def load(
    path: Path | None,
    environ: Mapping[str, str] = os.environ,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """The settings in force.

    Args:
        path: the TOML file, or None.
        environ: the environment.
        flags: values by the names in `FLAGS`; None means not given.

    Raises:
        ConfigError: naming the place, the key, and the nearest key that exists.
    """
    settings: dict[str, Any] = {}
    if path is not None:
        settings = _read_file(path)
    for name, (section, key), text in _from_environment(environ):
        value = _convert(text, section, key, name)
        settings = _with(settings, section, key, value)
    for flag, value in (flags or {}).items():
        if value is not None:
            section, key = FLAGS[flag]
            _check(section, key, value, f"--{flag.replace('_', '-')}")
            settings = _with(settings, section, key, value)
    return _finish(msgspec.convert(settings, Config))


def _finish(config: Config) -> Config:
    url = config.upstream.url.rstrip("/")
    if url and not _is_url(url):
        shown = url.rpartition("@")[2]  # what stands before it may be a password
        raise ConfigError(
            f"The upstream {shown!r} is no URL: write it like http://127.0.0.1:8000/v1."
        )
    upstream = msgspec.structs.replace(config.upstream, url=url)
    return msgspec.structs.replace(config, upstream=upstream)


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is none, half an IPv6 address
        return False


def _with(settings: dict[str, Any], section: str, key: str, value: Any) -> dict[str, Any]:
    return {**settings, section: {**settings.get(section, {}), key: value}}


def _read_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise ConfigError(f"The configuration file {path} cannot be read: {reason}.") from None
    except UnicodeDecodeError:
        raise ConfigError(f"The configuration file {path} is not UTF-8 text.") from None
    try:
        settings = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: {error}.") from None
    for section, table in settings.items():
        _check_section(section, table, path, text)
    return settings


def _check_section(section: str, table: Any, path: Path, text: str) -> None:
    where = f"{path}:{_line_of(text, section, None)}"
    known = _fields(Config)
    if section not in known:
        raise ConfigError(f"{where}: unknown section [{section}]{_nearest(section, known)}")
    if not isinstance(table, dict):
        raise ConfigError(f"{where}: {section} is a section: write [{section}] and its keys below.")
    for key, value in table.items():
        _check(section, key, value, f"{path}:{_line_of(text, section, key)}")


def _check(section: str, key: str, value: Any, where: str) -> None:
    """One value against its field; what is wrong is said with its place."""
    struct = _fields(Config)[section]
    if not _is_struct(struct):
        return  # [profile]: checked by `upstream.profiles`, which knows its fields
    known = _fields(struct)
    if key not in known:
        raise ConfigError(f"{where}: unknown key {key!r} in [{section}]{_nearest(key, known)}")
    try:
        msgspec.convert(value, known[key])
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: bad value for {section}.{key}: {error}.") from None


def _from_environment(
    environ: Mapping[str, str],
) -> Iterator[tuple[str, tuple[str, str], str]]:
    variables = _variables()
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or name == CONFIG_VARIABLE:
            continue
        if name not in variables:
            nearest = _nearest(name, [*variables, CONFIG_VARIABLE])
            raise ConfigError(f"Unknown environment variable {name}{nearest}")
        yield name, variables[name], environ[name]


def _variables() -> dict[str, tuple[str, str]]:
    """Every variable: those named by a flag, and one for each key of a section."""
    variables = {ENV_PREFIX + flag.upper(): place for flag, place in FLAGS.items()}
    for section, struct in _fields(Config).items():
        if _is_struct(struct):
            for key in _fields(struct):
                variables[f"{ENV_PREFIX}{section}_{key}".upper()] = (section, key)
    return variables


def _convert(text: str, section: str, key: str, name: str) -> Any:
    """The text of a variable as the type of its key. Tables and lists are written as JSON."""
    wanted = _fields(_fields(Config)[section])[key]
    try:
        is_json = wanted is not str and text.startswith(("{", "["))  # [::1] is a host
        value = msgspec.json.decode(text) if is_json else text
        return msgspec.to_builtins(msgspec.convert(value, wanted, strict=False))
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise ConfigError(f"Bad value in {name}: {error}.") from None


def _fields(struct: Any) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def _is_struct(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)


def _nearest(key: str, known: Any) -> str:
    match = difflib.get_close_matches(key, list(known), n=1, cutoff=0.4)
    return f"; did you mean {match[0]!r}?" if match else f"; known are {', '.join(sorted(known))}."


def _line_of(text: str, section: str, key: str | None) -> int:
    """The line of a key (or of its section): tomllib gives no places for values that parse."""
    current = ""
    found = 1
    for number, line in enumerate(text.splitlines(), start=1):
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", line):
            current = header[1]
            if current.split(".")[0].strip("\"' ") == section:
                found = number
                if key is None or current.removeprefix(section + ".").strip("\"' ") == key:
                    return number
        elif assigned := re.match(r"\s*([\w.\"'-]+)\s*=", line):
            dotted = f"{current}.{assigned[1]}" if current else assigned[1]
            parts = [part.strip("\"' ") for part in dotted.split(".")]
            if parts[0] == section and (key is None or parts[1:2] == [key]):
                return number
    return found
