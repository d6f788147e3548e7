"""Secrets that the gateway itself holds: the model server's key, and the certificate's."""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from gateway.config import ConfigError, ServerConfig, UpstreamConfig

# The longest keys of services are JWTs of 2 KB; what is larger is another file.
MAX_KEY_FILE_BYTES = 16 * 1024
# Where systemd puts the files of LoadCredential= (systemd.exec(5)).
CREDENTIALS_VARIABLE = "CREDENTIALS_DIRECTORY"


def upstream_key(config: UpstreamConfig, environ: Mapping[str, str] = os.environ) -> str:
    """The key for the model server, out of the environment or out of a file; "" for none.

    Raises:
        ConfigError: it is not where the settings say. The key itself is never quoted.
    """
    if config.api_key_env and config.api_key_file:
        raise ConfigError(
            "Two places for one key: set upstream.api_key_env or upstream.api_key_file."
        )
    if config.api_key_env:
        place = f"The environment variable {config.api_key_env} (upstream.api_key_env)"
        key = environ.get(config.api_key_env, "")
    elif config.api_key_file:
        path = _path(config.api_key_file, environ)
        place = f"The file {path} (upstream.api_key_file)"
        key = _read(path, place)
    else:
        return ""
    if not key:
        raise ConfigError(f"{place} is empty: put the model server's key there.")
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(f"{place} holds more than a key: leave nothing but the key there.")
    return key


def tls_context(config: ServerConfig) -> ssl.SSLContext | None:
    """What encrypts, None when nothing does.

    Raises:
        ConfigError: one of the two files is missing or of no use.
    """
    if not config.tls_cert and not config.tls_key:
        return None
    if not config.tls_cert or not config.tls_key:
        raise ConfigError(
            "TLS needs both, server.tls_cert and server.tls_key: set the other one too."
        )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # A password would be asked for on the terminal of a service that has none.
        context.load_cert_chain(config.tls_cert, config.tls_key, password=lambda: "")
    except ssl.SSLError as error:
        reason = (error.reason or "no PEM").lower().replace("_", " ")
        raise ConfigError(
            f"{config.tls_cert} and {config.tls_key} are no certificate and its key: {reason}."
        ) from None
    except OSError as error:
        raise ConfigError(
            f"server.tls_cert or server.tls_key cannot be read: {error.strerror}."
        ) from None
    return context


def _path(name: str, environ: Mapping[str, str]) -> Path:
    folder = environ.get(CREDENTIALS_VARIABLE)
    return Path(folder, name) if folder and "/" not in name else Path(name)


def _read(path: Path, place: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{place} cannot be read: {error.strerror}.") from None
    if len(data) > MAX_KEY_FILE_BYTES:
        raise ConfigError(f"{place} is no key: it has more than {MAX_KEY_FILE_BYTES} bytes.")
    return data.decode("latin-1").strip()
