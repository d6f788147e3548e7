"""The file of API keys: what is written into it, what is read out of it, and when."""

import os
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from gateway.cli import main
from gateway.config import ConfigError
from gateway.server.keyfile import RELOAD_SECONDS, KeyFile, add_key, expiry, hash_key, read_keys
from tests.server.guarded import edit


class Clock:
    """Seconds that go on when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def keys_file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


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
