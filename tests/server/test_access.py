"""Keys, their file and their limits; hosts, origins, and where it may listen at all."""

import asyncio
import base64
import contextlib
import os
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
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
from gateway.server.keyfile import RELOAD_SECONDS, KeyFile, add_key, expiry, hash_key, read_keys
from gateway.server.keys import ACCESS
from tests.scripted import ScriptedUpstream, hang
from tests.server.clients import JSON, ws_turn

CREATE: JSON = {"model": "scripted", "input": "hi"}


class Clock:
    """Seconds that go on when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream(lambda request: "hello") as upstream:
        yield upstream


@contextlib.asynccontextmanager
async def guarded(
    upstream: ScriptedUpstream, file: Path | None = None, **access: Any
) -> AsyncIterator[Gateway]:
    config = Config(
        server=ServerConfig(port=0, shutdown_seconds=0.5),
        upstream=UpstreamConfig(url=upstream.url, api="chat"),
        access=AccessConfig(keys_file=str(file or ""), **access),
    )
    async with Gateway(config) as gateway:
        yield gateway


async def call(
    gateway: Gateway,
    key: str = "",
    *,
    method: str = "POST",
    path: str = "/v1/responses",
    **more: Any,
) -> tuple[int, JSON, dict[str, str]]:
    """(status, body, headers) of one request."""
    headers = {**({"Authorization": f"Bearer {key}"} if key else {}), **more.pop("headers", {})}
    body = {"json": CREATE, **more} if method == "POST" else more
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{gateway.url}{path}", headers=headers, **body) as answer,
    ):
        found = await answer.json() if answer.content_type == "application/json" else {}
        return answer.status, found, dict(answer.headers)


def edit(file: Path, old: str, new: str) -> None:
    """Change the file, and let nobody's clock hide that."""
    before = file.stat()
    file.write_text(file.read_text().replace(old, new))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))


# -- keys


async def test_without_keys_everybody_on_this_machine_is_served(upstream: ScriptedUpstream) -> None:
    async with guarded(upstream) as gateway:
        status, body, _ = await call(gateway)
    assert (status, body["status"]) == (200, "completed")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/responses"),
        ("GET", "/v1/models"),
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/metrics"),
        ("GET", "/readyz"),
        ("GET", "/no/such/path"),
    ],
)
async def test_everything_but_the_health_of_the_process_asks_for_a_key(
    upstream: ScriptedUpstream, keys_file: Path, method: str, path: str
) -> None:
    key = add_key(keys_file, "alice")
    async with guarded(upstream, keys_file) as gateway:
        status, body, headers = await call(gateway, method=method, path=path)
        assert status == 401
        assert body["error"]["message"].startswith("You didn't provide an API key.")
        assert body["error"]["type"] == "invalid_request_error"
        assert "WWW-Authenticate" in headers
        assert (await call(gateway, key, method=method, path=path))[0] != 401
        assert (await call(gateway, method="GET", path="/healthz"))[0] == 200


async def test_a_wrong_key_is_refused_and_not_repeated(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key = add_key(keys_file, "alice")
    async with guarded(upstream, keys_file) as gateway:
        for wrong in (key[:-1], key + "x", key.upper(), hash_key(key), "rgw_", "ü"):
            status, body, _ = await call(gateway, headers={"Authorization": f"Bearer {wrong}"})
            assert (status, body["error"]["code"]) == (401, "invalid_api_key")
            assert wrong not in body["error"]["message"]
        # Not out of a URL: those stand in logs.
        status, _, _ = await call(gateway, path=f"/v1/responses?api_key={key}")
        assert status == 401
    assert upstream.requests == []


async def test_a_socket_asks_for_a_key_before_it_opens(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key = add_key(keys_file, "alice")
    async with guarded(upstream, keys_file) as gateway, aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await session.ws_connect(f"{gateway.url}/v1/responses")
        assert refused.value.status == 401
        async with session.ws_connect(
            f"{gateway.url}/v1/responses", headers={"Authorization": f"Bearer {key}"}
        ) as socket:
            assert (await ws_turn(socket, CREATE)).text == "hello"


async def test_a_browser_may_give_the_key_as_a_password_where_people_look(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key = add_key(keys_file, "alice")
    basic = {"Authorization": "Basic " + base64.b64encode(f"anyone:{key}".encode()).decode()}
    async with guarded(upstream, keys_file) as gateway:
        assert (await call(gateway, method="GET", path="/metrics", headers=basic))[0] == 200
        assert (await call(gateway, headers=basic))[0] == 401
        bad = {"Authorization": "Basic !"}
        assert (await call(gateway, method="GET", path="/metrics", headers=bad))[0] == 401


async def test_responses_belong_to_the_key_under_whatever_name(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    alice, bob = add_key(keys_file, "alice"), add_key(keys_file, "bob")
    async with guarded(upstream, keys_file) as gateway:
        _, made, _ = await call(gateway, alice)
        path = f"/v1/responses/{made['id']}"
        assert (await call(gateway, alice, method="GET", path=path))[0] == 200
        assert (await call(gateway, bob, method="GET", path=path))[0] == 404
        status, body, _ = await call(
            gateway, bob, json={**CREATE, "previous_response_id": made["id"]}
        )
        assert (status, body["error"]["code"]) == (400, "previous_response_not_found")
    owner = read_keys(keys_file)["alice"].owner
    edit(keys_file, "[alice]", "[alice-old]")
    assert read_keys(keys_file)["alice-old"].owner == owner


async def test_an_expired_key_is_told_so(upstream: ScriptedUpstream, keys_file: Path) -> None:
    key = add_key(keys_file, "alice", date(2020, 1, 31))
    async with guarded(upstream, keys_file) as gateway:
        status, body, _ = await call(gateway, key)
    assert (status, body["error"]["code"]) == (401, "invalid_api_key")
    assert "expired on 2020-01-31" in body["error"]["message"]


async def test_a_key_that_is_taken_out_ends_at_the_next_turn_of_its_open_socket(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key, other = add_key(keys_file, "alice"), add_key(keys_file, "bob")
    async with guarded(upstream, keys_file) as gateway, aiohttp.ClientSession() as session:
        headers = {"Authorization": f"Bearer {key}"}
        async with session.ws_connect(f"{gateway.url}/v1/responses", headers=headers) as socket:
            assert (await ws_turn(socket, CREATE)).text == "hello"
            edit(keys_file, hash_key(key), "0" * 64)
            keys = gateway.app[ACCESS]._keys
            assert keys is not None
            keys._looked_at -= RELOAD_SECONDS
            reply = await ws_turn(socket, CREATE, check=False)
        assert (reply.status, reply.error["code"]) == (401, "invalid_api_key")
        assert (await call(gateway, other))[0] == 200


# -- the file


def test_a_key_is_shown_once_and_its_hash_is_kept(keys_file: Path) -> None:
    keys_file.write_text("# who may\n")
    result = CliRunner().invoke(
        main, ["key", "new", "alice", "--keys", str(keys_file), "--expires", "2099-01-31"]
    )
    assert result.exit_code == 0, result.output
    key = result.stdout.strip()
    text = keys_file.read_text()
    assert key.startswith("rgw_")
    assert len(key) == 47
    assert text.startswith("# who may\n")
    assert key not in text
    assert hash_key(key) in text
    assert read_keys(keys_file)["alice"].expires == datetime(2099, 1, 31, tzinfo=UTC)


def test_a_new_file_is_for_its_owner_alone(keys_file: Path) -> None:
    add_key(keys_file, "alice")
    assert keys_file.stat().st_mode & 0o777 == 0o600
    keys_file.chmod(0o640)
    add_key(keys_file, "bob")
    assert keys_file.stat().st_mode & 0o777 == 0o640
    assert list(keys_file.parent.iterdir()) == [keys_file]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["alice"], "--keys FILE"),
        (["al ice", "--keys", "k"], "letters, digits"),
        (["alice", "--keys", "k", "--expires", "soon"], "90d or a date"),
        (["alice", "--keys", "/no/such/folder/k"], "cannot be written"),
    ],
)
def test_what_key_new_cannot_do_is_one_sentence(arguments: list[str], words: str) -> None:
    unset = {name: None for name in os.environ if name.startswith("RESPONSES_GATEWAY_")}
    result = CliRunner().invoke(main, ["key", "new", *arguments], env=unset)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_name_is_given_once(keys_file: Path) -> None:
    add_key(keys_file, "alice")
    with pytest.raises(ConfigError, match="choose another name"):
        add_key(keys_file, "alice")


def test_a_time_of_expiry(keys_file: Path) -> None:
    today = date(2026, 11, 30)
    assert expiry("90d", today) == today + timedelta(days=90)
    assert expiry("2027-01-31", today) == date(2027, 1, 31)
    keys_file.write_text(f'[a]\nsha256 = "{"a" * 64}"\nexpires = 2027-01-31T12:00:00\n')
    key = read_keys(keys_file)["a"]
    assert not key.is_expired(datetime(2027, 1, 31, 11, 59, tzinfo=UTC))
    assert key.is_expired(datetime(2027, 1, 31, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[a\nrgw_secret", "not TOML: see line 1"),
        ('[a]\nsha256 = "rgw_secret"\n', "[a]: Expected"),
        ('a = "rgw_secret"\n', "Expected `object`"),
        ("[a]\n", "sha256"),
        (f'[a]\nsha256 = "{"a" * 64}"\nmax_turn = 1\n', "max_turn"),
        (f'[a]\nsha256 = "{"a" * 64}"\n[b]\nsha256 = "{"a" * 64}"\n', "two names"),
    ],
)
def test_a_bad_file_is_one_sentence_without_its_text(
    keys_file: Path, text: str, words: str
) -> None:
    keys_file.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_keys(keys_file)
    assert words in str(error.value)
    assert "rgw_secret" not in str(error.value)


def test_a_file_that_everybody_may_write_is_no_keys_file(keys_file: Path) -> None:
    add_key(keys_file, "alice")
    keys_file.chmod(0o666)
    with pytest.raises(ConfigError, match="chmod o-w"):
        read_keys(keys_file)


def test_a_changed_file_is_read_again_at_most_once_a_second(keys_file: Path) -> None:
    key = add_key(keys_file, "alice")
    clock = Clock()
    keys = KeyFile(keys_file, clock)
    edit(keys_file, hash_key(key), "0" * 64)
    clock.now = RELOAD_SECONDS / 2
    assert keys.find(key) is not None
    clock.now = RELOAD_SECONDS
    assert keys.find(key) is None


@pytest.mark.parametrize("damage", ["not TOML", "gone"])
def test_a_file_that_has_become_bad_keeps_the_old_keys(
    keys_file: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    key = add_key(keys_file, "alice")
    clock = Clock()
    keys = KeyFile(keys_file, clock)
    good = keys_file.read_text()
    keys_file.unlink()
    if damage != "gone":
        keys_file.write_text("[alice")
    for second in (2, 4, 6):
        clock.now = second
        assert keys.find(key) is not None
    assert caplog.text.count("the keys stay as they were") == 1
    keys_file.write_text(good.replace(hash_key(key), "0" * 64))
    clock.now = 8
    assert keys.find(key) is None


# -- limits


async def test_turns_in_flight_are_bounded_for_one_key(keys_file: Path) -> None:
    alice, bob = add_key(keys_file, "alice"), add_key(keys_file, "bob")
    edit(keys_file, hash_key(alice) + '"', hash_key(alice) + '"\nmax_turns = 1')
    async with (
        ScriptedUpstream([hang(["a long story"]), "bob's", "again"]) as upstream,
        guarded(upstream, keys_file) as gateway,
    ):
        running = asyncio.create_task(call(gateway, alice, json={**CREATE, "stream": True}))
        await upstream.until(lambda u: u.hanging)
        status, body, headers = await call(gateway, alice)
        assert (status, body["error"]["code"]) == (429, "rate_limit_exceeded")
        assert body["error"]["type"] == "requests"
        assert "Limit 1, Used 1. Please try again in 2s." in body["error"]["message"]
        assert headers["Retry-After"] == "2"
        assert (await call(gateway, bob))[0] == 200
        upstream.release()
        assert (await running)[0] == 200
        assert (await call(gateway, alice))[0] == 200


async def test_open_sockets_are_bounded_for_one_key(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key = add_key(keys_file, "alice")
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        guarded(upstream, keys_file, max_sockets=1) as gateway,
        aiohttp.ClientSession() as session,
    ):
        url = f"{gateway.url}/v1/responses"
        async with session.ws_connect(url, headers=headers):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(url, headers=headers)
            assert refused.value.status == 429
            assert refused.value.headers is not None
            assert refused.value.headers["Retry-After"] == "2"
            # A socket is no turn.
            assert (await call(gateway, key))[0] == 200
        async with session.ws_connect(url, headers=headers) as socket:
            assert (await ws_turn(socket, CREATE)).text == "hello"


async def test_the_size_of_a_body_is_bounded_for_one_key(
    upstream: ScriptedUpstream, keys_file: Path
) -> None:
    key, other = add_key(keys_file, "alice"), add_key(keys_file, "bob")
    edit(keys_file, hash_key(key) + '"', hash_key(key) + '"\nmax_body_bytes = 1024')
    large = {**CREATE, "input": "x" * 1024}
    async with guarded(upstream, keys_file) as gateway, aiohttp.ClientSession() as session:
        status, body, _ = await call(gateway, key, json=large)
        assert (status, body["error"]["code"]) == (413, "request_too_large")
        assert (await call(gateway, other, json=large))[0] == 200
        headers = {"Authorization": f"Bearer {key}"}
        async with session.ws_connect(f"{gateway.url}/v1/responses", headers=headers) as socket:
            reply = await ws_turn(socket, large, check=False)
            assert (reply.status, reply.error["code"]) == (413, "request_too_large")


# -- web pages


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:{port}", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:{port}", 200),
        ("127.1.2.3", 200),
        ("[::1]:{port}", 200),
        ("app.localhost:{port}", 200),
        ("box.example:{port}", 200),
        ("localhost.", 200),
        ("evil.example:{port}", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.168.0.7", 403),
        ("evil@localhost", 403),
        ("localhost:99999", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
async def test_a_name_that_was_rebound_to_this_machine_is_refused(
    upstream: ScriptedUpstream, host: str, status: int
) -> None:
    async with guarded(upstream, hosts=["box.example"]) as gateway:
        port = gateway.url.rpartition(":")[2]
        found, body, _ = await call(gateway, headers={"Host": host.format(port=port)})
        assert found == status, body
        if status == 403:
            assert body["error"]["code"] == "host_not_allowed"
            assert "access.hosts" in body["error"]["message"]


@pytest.mark.parametrize(
    ("origin", "is_fine"),
    [
        ("{url}", True),
        ("https://chat.example", True),
        ("https://CHAT.example/", True),
        ("http://chat.example", False),
        ("https://chat.example.evil", False),
        ("http://127.0.0.1", False),
        ("http://127.0.0.1:1", False),
        ("http://evil.example", False),
        ("null", False),
        ("", False),
        ("http://[", False),
    ],
)
async def test_a_page_of_another_site_drives_neither_posts_nor_sockets(
    upstream: ScriptedUpstream, origin: str, is_fine: bool
) -> None:
    async with (
        guarded(upstream, origins=["https://chat.example"]) as gateway,
        aiohttp.ClientSession() as session,
    ):
        headers = {"Origin": origin.format(url=gateway.url)}
        status, body, _ = await call(gateway, headers=headers)
        url = f"{gateway.url}/v1/responses"
        if is_fine:
            assert status == 200, body
            async with session.ws_connect(url, headers=headers) as socket:
                assert (await ws_turn(socket, CREATE)).text == "hello"
        else:
            assert (status, body["error"]["code"]) == (403, "origin_not_allowed")
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await session.ws_connect(url, headers=headers)
            assert refused.value.status == 403


async def test_a_form_of_another_site_is_refused_without_an_origin(
    upstream: ScriptedUpstream,
) -> None:
    async with guarded(upstream) as gateway:
        for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200)):
            assert (await call(gateway, headers={"Sec-Fetch-Site": site}))[0] == status
        link = {"Sec-Fetch-Site": "cross-site"}
        assert (await call(gateway, method="GET", path="/metrics", headers=link))[0] == 200


# -- where it listens


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
