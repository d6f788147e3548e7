"""docs/operations.md and systemd/ name what there is: metrics, settings, credentials."""

import re
from pathlib import Path

from gateway.config import CONFIG_VARIABLE, Config, load
from gateway.server.metrics import Metrics

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SETTINGS = (ROOT / "systemd" / "responses-gateway.env").read_text(encoding="utf-8")
SERVICE = (ROOT / "systemd" / "responses-gateway.service").read_text(encoding="utf-8")


def test_the_page_explains_every_metric() -> None:
    text, _ = Metrics().page("")
    exported = set(re.findall(r"^# TYPE (gateway_\w+)", text.decode(), re.MULTILINE))
    exported = {name for name in exported if not name.endswith("_created")}
    rows = re.findall(r"^\| (`gateway_.+?) \|", PAGE, re.MULTILINE)
    explained = {name for row in rows for name in re.findall(r"`(gateway_\w+)", row)}
    assert explained == exported


def test_every_setting_that_is_named_exists() -> None:
    named = set(re.findall(r"RESPONSES_GATEWAY_[A-Z_]+", PAGE + SETTINGS)) - {CONFIG_VARIABLE}
    values = dict(re.findall(r"(RESPONSES_GATEWAY_[A-Z_]+)=(\S+)", PAGE + SETTINGS))
    assert len(named) > 10
    assert named <= values.keys() | {"RESPONSES_GATEWAY_HOST"}
    config = load(None, {name: value.rstrip("`,;") for name, value in values.items()})
    assert config.access.hosts == ["gateway.example.com"]


def test_the_file_of_settings_changes_nothing_until_it_is_edited() -> None:
    assert not re.findall(r"^[^#\n]", SETTINGS, re.MULTILINE)
    assert load(None, {}) == Config()


def test_the_page_names_every_credential() -> None:
    loaded = re.findall(r"^LoadCredential=([\w-]+):([\w.-]+)$", SERVICE, re.MULTILINE)
    assert len(loaded) == 4
    for name, file in loaded:
        assert f"`{name}`" in PAGE
        assert f"`{file}`" in PAGE
