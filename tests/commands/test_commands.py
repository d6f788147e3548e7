"""The commands as a user types them: what they say, how they end, what they leave behind."""

import json
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from gateway.cli import main
from tests.doctor.test_faults import closed_url

NOBODY = closed_url()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "codex"
    monkeypatch.setenv("CODEX_HOME", str(folder))
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def test_codex_prints_and_touches_nothing(home: Path) -> None:
    done = run("codex", "--url", NOBODY, "--model", "qwen")
    assert done.exit_code == 0
    assert not home.exists()
    sections = done.stdout.split("# ---- ")[1:]
    names = [Path(section.splitlines()[0]).name for section in sections]
    assert names == ["config.toml", "gateway.config.toml", "gateway-models.json"]
    assert tomllib.loads(sections[0].partition("\n")[2])["model_providers"]["gateway"]
    assert json.loads(sections[2].partition("\n")[2])["models"][0]["slug"] == "qwen"


def test_codex_without_a_gateway_says_so_and_goes_on(home: Path) -> None:
    done = run("codex", "--write", "--url", NOBODY)
    assert done.exit_code == 0
    assert "no gateway answers" in done.stderr
    assert "--model" in done.stderr
    assert "codex -p gateway" in done.stdout
    assert run("codex", "--write", "--url", NOBODY).stdout.startswith("Nothing to do")
    assert "removed" in run("codex", "--undo").stdout
    assert not home.exists()
    assert "Nothing to undo" in run("codex", "--undo").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--write", "--default"], "--default needs a model"),
        (["--write", "--name", "a b"], "cannot be used"),
        (["--write", "--name", "openai"], "has reserved"),
        (["--write", "--key-env", "NO_SUCH_KEY"], "NO_SUCH_KEY is empty"),
    ],
)
def test_codex_refuses_with_one_sentence(home: Path, arguments: list[str], words: str) -> None:
    done = run("codex", "--url", NOBODY, *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert not home.exists()


def test_a_codex_config_that_is_no_toml_stays(home: Path) -> None:
    home.mkdir()
    home.joinpath("config.toml").write_text("model = \n")
    done = run("codex", "--write", "--url", NOBODY, "--model", "m")
    assert done.exit_code == 2
    assert "line 1" in done.stderr
    assert [path.read_text() for path in home.iterdir()] == ["model = \n"]


def test_doctor_as_json(home: Path) -> None:
    done = run("doctor", "--json", "--url", NOBODY)
    assert done.exit_code == 2
    found = json.loads(done.stdout)
    assert found["verdict"] == "broken"
    assert found["faults"] == ["gateway"]
    assert found["findings"][0]["check"] == "gateway"
    assert {row["verdict"] for row in found["findings"][1:-1]} == {"skipped"}


def test_doctor_as_a_table(home: Path) -> None:
    done = run("doctor", "--url", NOBODY)
    assert done.exit_code == 2
    assert "nothing answers at" in done.stdout
    assert "Look at the gateway: it is broken." in done.stdout


def test_demo_without_the_gateway_that_was_named(home: Path) -> None:
    done = run("demo", "--url", NOBODY)
    assert done.exit_code == 2
    assert "No gateway answers" in done.stderr


@pytest.mark.parametrize("command", ["codex", "doctor", "demo"])
def test_help_names_every_option(command: str) -> None:
    done = run(command, "--help")
    assert done.exit_code == 0
    found = main.get_command(click.Context(main), command)
    assert found is not None
    for option in found.params:
        for name in option.opts:
            assert name in done.stdout
