"""Written into any configuration and taken out again, a setup leaves the bytes that were there."""

import errno
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gateway.codex.catalog import catalog
from gateway.codex.home import Home, SetupError, codex_home
from gateway.codex.setup import Wanted, provider_lines, render, v1
from tests.codex.configs import CONFIGS

MODELS = catalog(["qwen", "other"], {"qwen": 65536})
URL = "http://127.0.0.1:8790/v1"

every_config = pytest.mark.parametrize("text", CONFIGS.values(), ids=CONFIGS.keys())
default_or_not = pytest.mark.parametrize("default", [False, True], ids=["beside", "default"])


def wanted(**changes: Any) -> Wanted:
    return Wanted(**{"url": URL, "models": MODELS, **changes})


def home_with(folder: Path, text: str) -> Path:
    home = folder / "codex"
    home.mkdir()
    home.joinpath("config.toml").write_bytes(text.encode())
    return home


def files(home: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in home.iterdir()} if home.exists() else {}


def settings(home: Path, name: str = "config.toml") -> dict[str, Any]:
    return tomllib.loads(home.joinpath(name).read_bytes().decode().removeprefix("\ufeff"))


@every_config
@default_or_not
def test_write_then_undo_gives_the_same_bytes(tmp_path: Path, text: str, default: bool) -> None:
    home = home_with(tmp_path, text)
    before = settings(home)
    Home(home).write(wanted(default=default))
    after = settings(home)
    assert after["model_providers"].pop("gateway")["base_url"] == URL
    assert after["model_providers"] == before.get("model_providers", {})
    changed = {k for k in after if k != "model_providers" and after[k] != before.get(k)}
    top = {"model", "model_provider", "model_catalog_json"}
    assert changed == (top if default else set())
    Home(home).undo()
    assert files(home) == {"config.toml": text.encode()}


@every_config
@default_or_not
def test_every_line_of_the_user_stays_in_its_place(
    tmp_path: Path, text: str, default: bool
) -> None:
    home = home_with(tmp_path, text)
    Home(home).write(wanted(default=default))
    written = iter(home.joinpath("config.toml").read_bytes().decode().splitlines())
    own = ("model =", "model_provider =", "model_catalog_json =", "model_providers =")
    for line in text.removeprefix("\ufeff").splitlines():
        if not line.replace("\t", " ").startswith(own):
            assert line in (found.removeprefix("\ufeff") for found in written)


@every_config
@default_or_not
def test_undo_keeps_what_the_user_has_added_since(tmp_path: Path, text: str, default: bool) -> None:
    home = home_with(tmp_path, text)
    Home(home).write(wanted(default=default))
    path = home / "config.toml"
    path.write_bytes(path.read_bytes() + b"\n[added]\nlater = true # mine\n")
    said = Home(home).undo()
    assert "your changes stay" in said[0]
    end = "" if not text or text.endswith("\n") else "\n"
    assert path.read_bytes().decode().replace("\n[added]\nlater = true # mine\n", "") in (
        text,
        text + end,
    )
    assert set(files(home)) == {"config.toml"}


@every_config
def test_writing_twice_changes_nothing_and_undo_still_goes_all_the_way(
    tmp_path: Path, text: str
) -> None:
    home = home_with(tmp_path, text)
    Home(home).write(wanted())
    first = files(home)
    assert Home(home).write(wanted()) == []
    assert files(home) == first
    assert Home(home).write(wanted(url="http://h:1/v1", default=True)) != []
    assert settings(home)["model_providers"]["gateway"]["base_url"] == "http://h:1/v1"
    Home(home).undo()
    assert files(home) == {"config.toml": text.encode()}


def test_no_codex_home_at_all(tmp_path: Path) -> None:
    home = tmp_path / "a" / "codex"
    Home(home).write(wanted())
    assert oct(home.stat().st_mode & 0o777) == "0o700"
    assert oct(home.joinpath("config.toml").stat().st_mode & 0o777) == "0o600"
    Home(home).undo()
    assert not home.exists()


def test_what_codex_is_given(tmp_path: Path) -> None:
    home = home_with(tmp_path, "")
    Home(home).write(wanted(key_env="GATEWAY_KEY"))
    provider = settings(home)["model_providers"]["gateway"]
    assert provider == {
        "name": "responses-gateway",
        "base_url": URL,
        "wire_api": "responses",
        "supports_websockets": True,
        "model_catalog_url": f"{URL}/models",
        "env_key": "GATEWAY_KEY",
    }
    profile = settings(home, "gateway.config.toml")
    assert profile["model"] == "qwen"
    assert profile["model_provider"] == "gateway"
    assert json.loads(Path(profile["model_catalog_json"]).read_text()) == {"models": MODELS}


def test_without_models_the_catalogue_is_left_to_the_url(tmp_path: Path) -> None:
    home = home_with(tmp_path, "")
    Home(home).write(wanted(models=[]))
    assert settings(home, "gateway.config.toml") == {"model_provider": "gateway"}
    assert "gateway-models.json" not in files(home)
    Home(home).write(wanted())
    assert "gateway-models.json" in files(home)
    Home(home).write(wanted(models=[]))
    assert "gateway-models.json" not in files(home)
    Home(home).undo()
    assert files(home) == {"config.toml": b""}


@pytest.mark.parametrize("order", [("one", "two"), ("two", "one")])
def test_two_setups_side_by_side_go_in_any_order(tmp_path: Path, order: tuple[str, str]) -> None:
    text = CONFIGS["comments everywhere"]
    home = home_with(tmp_path, text)
    for name in ("one", "two"):
        Home(home, name).write(wanted(name=name))
    for name in order:
        Home(home, name).undo()
    assert home.joinpath("config.toml").read_text() == text


def test_a_change_inside_our_table_is_not_taken_away(tmp_path: Path) -> None:
    home = home_with(tmp_path, 'model = "a"\n')
    Home(home).write(wanted())
    path = home / "config.toml"
    edited = path.read_text() + "stream_idle_timeout_ms = 1000\n"
    path.write_text(edited)
    with pytest.raises(SetupError, match="has been changed since it was written"):
        Home(home).write(wanted(url="http://h:1/v1"))
    said = Home(home).undo()
    assert "[model_providers.gateway] has been changed since and stays" in said[0]
    assert path.read_text() == edited


def test_an_edited_profile_stays(tmp_path: Path) -> None:
    home = home_with(tmp_path, "")
    Home(home).write(wanted())
    profile = home / "gateway.config.toml"
    profile.write_text(profile.read_text() + 'model_reasoning_effort = "high"\n')
    with pytest.raises(SetupError, match="changed since"):
        Home(home).write(wanted(url="http://h:1/v1"))
    assert any("has been changed since and stays" in line for line in Home(home).undo())
    assert set(files(home)) == {"config.toml", "gateway.config.toml"}


def test_a_default_that_the_user_changed_since_stays(tmp_path: Path) -> None:
    home = home_with(tmp_path, 'model = "a" # old\n')
    Home(home).write(wanted(default=True))
    path = home / "config.toml"
    path.write_text(path.read_text().replace('model = "qwen" # old', 'model = "mine" # new'))
    said = Home(home).undo()
    assert "model has been changed since" in said[0]
    assert path.read_text() == 'model = "mine" # new\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model = \n", "Invalid value (at line 1"),
        ("a = 1\n[b\n", "line 2"),
        ('model = "a"\nmodel = "b"\n', "Cannot overwrite a value (at line 2"),
        ("model_providers = 3\n", "model_providers is not a table"),
    ],
)
def test_what_is_no_toml_is_left_untouched_and_said(tmp_path: Path, text: str, words: str) -> None:
    home = home_with(tmp_path, text)
    with pytest.raises(SetupError) as caught:
        Home(home).write(wanted())
    assert words in str(caught.value)
    assert files(home) == {"config.toml": text.encode()}


def test_what_is_no_text_is_left_untouched(tmp_path: Path) -> None:
    home = home_with(tmp_path, "")
    home.joinpath("config.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SetupError, match="not UTF-8"):
        Home(home).write(wanted())


def test_a_configuration_broken_after_the_write_is_not_touched_by_undo(tmp_path: Path) -> None:
    home = home_with(tmp_path, 'model = "a"\n')
    Home(home).write(wanted())
    path = home / "config.toml"
    path.write_text(path.read_text() + "[broken\n")
    before = files(home)
    with pytest.raises(SetupError, match="cannot be edited"):
        Home(home).undo()
    assert files(home) == before


@pytest.mark.parametrize("name", ["gateway.config.toml", "gateway-models.json"])
def test_a_file_of_the_user_is_never_overwritten(tmp_path: Path, name: str) -> None:
    home = home_with(tmp_path, "")
    home.joinpath(name).write_text("mine")
    before = files(home)
    with pytest.raises(SetupError, match="--name"):
        Home(home).write(wanted())
    assert files(home) == before
    Home(home, "other").write(wanted(name="other"))
    Home(home, "other").undo()
    assert files(home) == before


def test_a_provider_of_the_user_is_never_overwritten(tmp_path: Path) -> None:
    home = home_with(tmp_path, '[model_providers.gateway]\nname = "mine"\n')
    before = files(home)
    with pytest.raises(SetupError, match="'gateway' that was not written by this command"):
        Home(home).write(wanted())
    assert files(home) == before
    assert Home(home).undo() == []


def test_a_link_into_a_folder_of_dotfiles_stays_a_link(tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.toml"
    target.write_text('model = "a"\n')
    target.chmod(0o640)
    home = tmp_path / "codex"
    home.mkdir()
    home.joinpath("config.toml").symlink_to(target)
    Home(home).write(wanted())
    assert "gateway" in target.read_text()
    Home(home).undo()
    assert home.joinpath("config.toml").is_symlink()
    assert target.read_text() == 'model = "a"\n'
    assert oct(target.stat().st_mode & 0o777) == "0o640"


def test_an_older_backup_is_not_overwritten(tmp_path: Path) -> None:
    home = home_with(tmp_path, 'model = "a"\n')
    home.joinpath("config.toml.before-gateway").write_text("older")
    Home(home).write(wanted())
    assert home.joinpath("config.toml.before-gateway-2").read_text() == 'model = "a"\n'
    Home(home).undo()
    assert home.joinpath("config.toml.before-gateway").read_text() == "older"


@pytest.mark.parametrize(
    "lost", ["config.toml", "config.toml.before-gateway", "gateway-models.json"]
)
def test_undo_after_a_file_was_deleted(tmp_path: Path, lost: str) -> None:
    home = home_with(tmp_path, 'model = "a"\n')
    Home(home).write(wanted())
    home.joinpath(lost).unlink()
    Home(home).undo()
    expected = {} if lost == "config.toml" else {"config.toml": b'model = "a"\n'}
    assert files(home) == expected


def test_a_damaged_record_is_said(tmp_path: Path) -> None:
    home = home_with(tmp_path, "")
    Home(home).write(wanted())
    home.joinpath("gateway-setup.json").write_text("{}")
    for act in (Home(home).undo, lambda: Home(home).write(wanted())):
        with pytest.raises(SetupError, match="is damaged"):
            act()


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = home_with(tmp_path, "")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(home))

    monkeypatch.setattr(
        "tempfile.mkstemp", refuse
    )  # root, as whom tests may run, may write anywhere
    with pytest.raises(SetupError, match=r"permission denied.*CODEX_HOME"):
        Home(home).write(wanted())
    assert files(home) == {"config.toml": b""}


def test_a_home_that_is_a_file(tmp_path: Path) -> None:
    home = tmp_path / "codex"
    home.write_text("")
    with pytest.raises(SetupError, match="CODEX_HOME"):
        Home(home).write(wanted())


def test_a_half_written_setup_can_be_undone(tmp_path: Path) -> None:
    home = home_with(tmp_path, 'model = "a"\n')
    Home(home).write(wanted())
    home.joinpath("config.toml").write_text(
        'model = "a"\n'
    )  # as if it had been cut before the last step
    home.joinpath("gateway-models.json").unlink()
    Home(home).undo()
    assert files(home) == {"config.toml": b'model = "a"\n'}


def test_codex_home_is_respected(tmp_path: Path) -> None:
    assert codex_home({"CODEX_HOME": "/x"}) == Path("/x")
    assert codex_home({}) == Path.home() / ".codex"


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ("http://127.0.0.1:8790", "http://127.0.0.1:8790/v1"),
        ("http://0.0.0.0:1/", "http://127.0.0.1:1/v1"),
        ("http://[::]:1/v1/", "http://[::1]:1/v1"),
    ],
)
def test_urls(given: str, url: str) -> None:
    assert v1(given) == url


def test_the_lines_for_a_terminal_are_a_whole_configuration() -> None:
    found = tomllib.loads(provider_lines(wanted(models=catalog(['odd "name"'], {}))))
    assert found["model"] == 'odd "name"'
    provider = found["model_providers"][found["model_provider"]]
    assert provider["supports_websockets"] is True
    assert provider["model_catalog_url"] == f"{URL}/models"
    assert "MODEL" in provider_lines(wanted(models=[]))


def test_what_is_printed_is_what_is_written(tmp_path: Path) -> None:
    home = tmp_path / "codex"
    printed = render(home, wanted(default=True))
    assert not home.exists()
    Home(home).write(wanted(default=True))
    for name, text in printed.items():
        assert home.joinpath(name).read_text() == text
