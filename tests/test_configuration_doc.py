"""docs/configuration.md has every key with its default, and none that is gone."""

import re
from pathlib import Path

import msgspec
import pytest

from gateway.config import FLAGS, Config

PAGE = (Path(__file__).parents[1] / "docs" / "configuration.md").read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", PAGE, flags=re.MULTILINE)
# The one default that is another setting's word.
AS_ELSEWHERE = {("tools", "hosted"): "as the profile says"}


def documented(section: str) -> dict[str, tuple[str, str]]:
    """key -> (default, meaning)."""
    (text,) = [part for part in SECTIONS if part.startswith(f"[{section}]")]
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \|$", text, re.MULTILINE)
    return {key: (default, meaning) for key, default, meaning in rows}


STRUCTS = [
    (field.name, field.type)
    for field in msgspec.structs.fields(Config)
    if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct)
]


@pytest.mark.parametrize(("section", "struct"), STRUCTS)
def test_every_key_is_there_with_its_default(section: str, struct: type[msgspec.Struct]) -> None:
    real = {
        field.name: AS_ELSEWHERE.get(
            (section, field.name),
            f"`{msgspec.json.encode(getattr(struct(), field.name)).decode()}`",
        )
        for field in msgspec.structs.fields(struct)
    }
    assert {key: default for key, (default, _) in documented(section).items()} == real


def test_no_section_is_documented_that_is_gone() -> None:
    titles = {match[1] for part in SECTIONS if (match := re.match(r"\[(\w+)\]", part))}
    assert titles == {field.name for field in msgspec.structs.fields(Config)}


@pytest.mark.parametrize(("flag", "place"), FLAGS.items())
def test_every_flag_is_named_with_its_key(flag: str, place: tuple[str, str]) -> None:
    section, key = place
    assert f"`--{flag.replace('_', '-')}`" in documented(section)[key][1]
