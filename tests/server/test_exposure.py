"""Where it may listen, TLS, and where the model server's key comes from."""

import os
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from gateway.app import Gateway, build_app
from gateway.cli import main
from gateway.config import AccessConfig, Config, ConfigError, ServerConfig, UpstreamConfig
from gateway.server.access import check_exposure
from gateway.server.credentials import upstream_key
from gateway.server.keyfile import add_key
from tests.scripted import ScriptedUpstream
from tests.server.clients import ws_turn
from tests.server.guarded import CREATE


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(lambda request: "hello") as upstream:
        yield upstream


def config_for(host: str, tmp_path: Path, **access: Any) -> Config:
    return Config(
        server=ServerConfig(host=host, port=0),
        upstream=UpstreamConfig(url="http://127.0.0.1:9/v1", api="chat"),
        access=AccessConfig(**access),
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.0.7"])
def test_beyond_this_machine_only_with_keys_and_not_in_the_clear(host: str, tmp_path: Path) -> None:
    keys = str(tmp_path / "keys.toml")
    add_key(Path(keys), "alice")
    with pytest.raises(ConfigError, match="needs API keys"):
        build_app(config_for(host, tmp_path))
    with pytest.raises(ConfigError, match="needs API keys"):
        build_app(config_for(host, tmp_path, insecure=True))
    with pytest.raises(ConfigError, match="--insecure"):
        build_app(config_for(host, tmp_path, keys_file=keys))
    build_app(config_for(host, tmp_path, keys_file=keys, insecure=True))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_this_machine_needs_no_keys(host: str, tmp_path: Path) -> None:
    check_exposure(config_for(host, tmp_path))


def test_a_socket_that_somebody_else_has_bound_is_judged_by_its_own_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="needs API keys"):
        check_exposure(config_for("127.0.0.1", tmp_path), "0.0.0.0")


def test_the_refusal_at_the_command_line() -> None:
    unset = {name: None for name in os.environ if name.startswith("RESPONSES_GATEWAY_")}
    arguments = ["serve", "--host", "0.0.0.0", "--port", "0", "--upstream", "http://127.0.0.1:9/v1"]
    result = CliRunner().invoke(main, arguments, env=unset)
    assert result.exit_code == 2
    assert "key new NAME" in result.stderr
    assert result.stderr.count("\n") == 1


async def test_tls(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    config = Config(
        server=ServerConfig(port=0, tls_cert=cert, tls_key=key),
        upstream=UpstreamConfig(url=upstream.url, api="chat"),
    )
    context = ssl.create_default_context(cafile=cert)
    async with Gateway(config) as gateway, aiohttp.ClientSession() as session:
        assert gateway.url.startswith("https://")
        async with session.ws_connect(f"{gateway.url}/v1/responses", ssl=context) as socket:
            assert (await ws_turn(socket, CREATE)).text == "hello"


@pytest.mark.parametrize(
    ("cert", "key", "words"),
    [
        ("c.pem", "", "set the other one too"),
        ("no.pem", "k.pem", "cannot be read"),
        ("bad.pem", "bad.pem", "no certificate and its key"),
    ],
)
def test_tls_files_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cert: str, key: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.pem").write_text("no PEM")
    config = Config(
        server=ServerConfig(port=0, tls_cert=cert, tls_key=key),
        upstream=UpstreamConfig(url="http://127.0.0.1:9/v1", api="chat"),
    )
    with pytest.raises(ConfigError, match=words):
        Gateway(config)


# -- the model server's key


def test_the_model_servers_key_comes_from_a_credential_file(tmp_path: Path) -> None:
    (tmp_path / "upstream-key").write_text("sk-upstream\n")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    by_name = UpstreamConfig(url="http://h/v1", api_key_file="upstream-key")
    assert upstream_key(by_name, environ) == "sk-upstream"
    by_path = UpstreamConfig(url="http://h/v1", api_key_file=str(tmp_path / "upstream-key"))
    assert upstream_key(by_path, {}) == "sk-upstream"


@pytest.mark.parametrize(
    ("text", "words"), [("", "is empty"), ("a\nb", "more than a key"), ("x" * 20000, "no key")]
)
def test_a_credential_file_that_holds_no_key(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "key"
    file.write_text(text)
    with pytest.raises(ConfigError, match=words):
        upstream_key(UpstreamConfig(url="http://h/v1", api_key_file=str(file)), {})


def test_two_places_for_one_key_are_one_too_many() -> None:
    both = UpstreamConfig(url="http://h/v1", api_key_file="f", api_key_env="E")
    with pytest.raises(ConfigError, match="Two places"):
        upstream_key(both, {"E": "key"})


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate of its own making for 127.0.0.1, and its key."""
    from ipaddress import ip_address

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .sign(private, hashes.SHA256())
    )
    cert, key = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(cert), str(key)
