"""Settings: file < environment < flags, and every mistake named with its place."""

from pathlib import Path

import pytest

from gateway.config import Config, ConfigError, load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "gateway.toml"


def test_without_anything_the_defaults_hold() -> None:
    config = load(None, {})
    assert config == Config()
    assert (config.server.host, config.server.port) == ("127.0.0.1", 8790)
    assert config.tools.invalid == "custom_call"


def test_a_file_sets_every_section(file: Path) -> None:
    file.write_text(
        """
        [server]
        port = 9000
        heartbeat_seconds = 5
        [upstream]
        url = "http://127.0.0.1:8000/v1/"
        [upstream.model]
        "gpt-5" = "qwen3"
        [profile]
        name_max_length = 40
        [tools]
        invalid = "function_call"
        invalid_by_name = {apply_patch = "custom_call"}
        [store]
        url = "memory"
        [log]
        level = "debug"
        """
    )
    config = load(file, {})
    assert config.server.port == 9000
    assert config.server.heartbeat_seconds == 5
    assert config.upstream.url == "http://127.0.0.1:8000/v1"
    assert config.upstream.model == {"gpt-5": "qwen3"}
    assert config.profile == {"name_max_length": 40}
    assert config.tools.invalid_by_name == {"apply_patch": "custom_call"}


def test_environment_beats_the_file_and_a_flag_beats_both(file: Path) -> None:
    file.write_text("[server]\nport = 1\nhost = 'file'\nworkers = 2\n")
    environ = {"RESPONSES_GATEWAY_SERVER_PORT": "2", "RESPONSES_GATEWAY_HOST": "env", "PATH": "/"}
    config = load(file, environ, {"port": 3, "host": None, "upstream": None})
    assert (config.server.port, config.server.host, config.server.workers) == (3, "env", 2)


def test_values_in_the_environment_take_the_type_of_their_key() -> None:
    config = load(
        None,
        {
            "RESPONSES_GATEWAY_SERVER_COMPRESS": "true",
            "RESPONSES_GATEWAY_SERVER_HEARTBEAT_SECONDS": "2.5",
            "RESPONSES_GATEWAY_UPSTREAM_MODEL": '{"a": "b"}',
            "RESPONSES_GATEWAY_UPSTREAM": "http://h/v1",
            "RESPONSES_GATEWAY_CONFIG": "read by the command line",
        },
    )
    assert config.server.compress is True
    assert config.server.heartbeat_seconds == 2.5
    assert config.upstream.model == {"a": "b"}
    assert config.upstream.url == "http://h/v1"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("[server]\n\nprot = 1\n", [":3:", "'prot'", "[server]", "did you mean 'port'"]),
        ("[sever]\nport = 1\n", [":1:", "[sever]", "did you mean 'server'"]),
        ("server.prot = 1\n", [":1:", "'prot'", "'port'"]),
        ("[tools]\nqqqq = 1\n", [":2:", "'qqqq'", "known are", "invalid_by_name"]),
        ("[server]\nport = 'x'\n", [":2:", "server.port", "int", "str"]),
        ("[server]\nhost = 'h'\nport = 70000\n", [":3:", "server.port", "65535"]),
        ("[server]\nheartbeat_seconds = 0\n", [":2:", "server.heartbeat_seconds"]),
        ("[tools]\ninvalid = 'guess'\n", [":2:", "tools.invalid", "guess"]),
        ("server = 1\n", [":1:", "section", "[server]"]),
        ("[server\n", ["line 1"]),
        ("[upstream]\nurl = 'localhost:8000'\n", ["localhost:8000", "http://"]),
    ],
)
def test_a_mistake_in_the_file_is_named_with_its_line(
    file: Path, text: str, parts: list[str]
) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file, {})
    message = str(caught.value)
    assert [part for part in parts if part not in message] == [], message
    assert "\n" not in message


def test_a_file_that_cannot_be_read_is_named(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.toml cannot be read: No such file"):
        load(file, {})
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(file, {})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"RESPONSES_GATEWAY_SERVER_PROT": "1"}, "did you mean 'RESPONSES_GATEWAY_SERVER_PORT'"),
        ({"RESPONSES_GATEWAY_PORT": "many"}, "RESPONSES_GATEWAY_PORT"),
        ({"RESPONSES_GATEWAY_UPSTREAM_MODEL": "{"}, "RESPONSES_GATEWAY_UPSTREAM_MODEL"),
    ],
)
def test_a_mistake_in_the_environment_is_named(environ: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load(None, environ)


def test_a_bad_flag_is_named_as_it_was_typed() -> None:
    with pytest.raises(ConfigError, match="--upstream-api"):
        load(None, {}, {"upstream_api": "grpc"})
