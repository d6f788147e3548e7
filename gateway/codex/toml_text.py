"""Adds settings to the text of a Codex configuration, and takes exactly those out again.

Comments, order and every other byte stay. Each edit is checked by a second parser (tomllib): what the
new text means must be the old meaning and the one change, else nothing is edited at all.
"""

import json
import tomllib
from typing import Any

import msgspec
import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

from gateway.wire.json import JSON

PROVIDERS = "model_providers"
_MARK = '# Written by "responses-gateway codex --write"; --undo takes it out again.'
_BOM = "\ufeff"
_UNSAFE = "its tables stand in an order that cannot be edited safely"


class BadToml(ValueError):
    """The text is no TOML, or none that could be edited safely. The message says why."""


class Taken(ValueError):
    """The provider's name is used by a table that was not written here."""


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """What was put into a text: enough to take it out after the user has edited the rest.

    Attributes:
        name: of the provider.
        provider: its table.
        top: top-level settings, by key.
        previous: values that the keys of `top` had; a key that is missing had none.
        blocks: the pieces of text that were inserted.
    """

    name: str
    provider: dict[str, Any]
    top: dict[str, Any] = {}
    previous: dict[str, Any] = {}
    blocks: list[str] = []


def parse(text: str) -> JSON:
    """The settings in a text.

    Raises:
        BadToml: it is not TOML.
    """
    try:
        return tomllib.loads(text.removeprefix(_BOM))
    except tomllib.TOMLDecodeError as error:
        raise BadToml(str(error)) from None


def table(header: str, settings: JSON) -> str:
    """A TOML table of plain values, as it is read most easily; without a header for ""."""
    lines = [f"[{header}]"] if header else []
    lines += [f"{key} = {_value(value)}" for key, value in settings.items()]
    return "\n".join(lines) + "\n"


def add(text: str, name: str, provider: JSON, top: JSON) -> tuple[str, Edit]:
    """The text with a provider's table and with top-level settings.

    Raises:
        BadToml: the text is not TOML, or has these settings in a form that cannot be edited.
        Taken: it has a provider of that name.
    """
    settings = parse(text)
    providers = settings.get(PROVIDERS, {})
    if not isinstance(providers, dict):
        raise BadToml(f"{PROVIDERS} is not a table")
    if name in providers:
        raise Taken(name)
    line_end = "\r\n" if "\r\n" in text else "\n"
    mark, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    blocks: list[str] = []
    if _is_inline(text):
        text = _add_inline(text, name, provider)
    else:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        block = f"{gap}{_MARK}\n{table(f'{PROVIDERS}.{_key(name)}', provider)}"
        block = block.replace("\n", line_end)
        text += block
        blocks.append(block)
    previous = {key: settings[key] for key in top if key in settings}
    text = _replace(text, {key: top[key] for key in previous})
    if fresh := {key: value for key, value in top.items() if key not in previous}:
        block = f"{_MARK}\n{table('', fresh)}\n".replace("\n", line_end)
        text = block + text
        blocks.append(block)
    wanted = {**settings, **top, PROVIDERS: {**providers, name: provider}}
    _check(text, wanted)
    edit = Edit(name=name, provider=provider, top=top, previous=previous, blocks=blocks)
    return mark + text, edit


def remove(text: str, edit: Edit) -> tuple[str, list[str]]:
    """The text without what an edit has put there, and what had to stay since it was changed.

    Raises:
        BadToml: it is no TOML any more, or cannot be edited safely.
    """
    settings = parse(text)
    left: list[str] = []
    wanted = dict(settings)
    providers = settings.get(PROVIDERS)
    ours = providers.get(edit.name) if isinstance(providers, dict) else None
    if ours == edit.provider and isinstance(providers, dict):
        others = {key: value for key, value in providers.items() if key != edit.name}
        wanted[PROVIDERS] = others
    elif ours is not None:
        left.append(f"[{PROVIDERS}.{_key(edit.name)}]")
    undone: JSON = {}
    for key, value in edit.top.items():
        if settings.get(key) != value:
            if key in settings:
                left.append(key)
        elif key in edit.previous:
            undone[key] = wanted[key] = edit.previous[key]
        else:
            undone[key] = None
            del wanted[key]
    mark, body = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
    taken = PROVIDERS in wanted and wanted[PROVIDERS] != providers
    return mark + _without(body, edit, undone, taken=taken, wanted=wanted), left


def _without(text: str, edit: Edit, undone: JSON, *, taken: bool, wanted: JSON) -> str:
    """First the inserted pieces of text that still stand as they were, then what is left, by keys."""
    cut = text
    for block in edit.blocks:
        if cut.count(block) == 1:
            cut = cut.replace(block, "")
    for start in (cut, text):
        edited = _without_keys(start, edit.name, undone, taken=taken)
        if _means(edited, wanted):
            return edited
    raise BadToml(_UNSAFE)


def _without_keys(text: str, name: str, undone: JSON, *, taken: bool) -> str:
    document = _document(text)
    for key, value in undone.items():
        if value is not None:
            document[key] = value
        elif key in document:
            del document[key]
    if taken and name in document.get(PROVIDERS, {}):
        del document[PROVIDERS][name]
    return tomlkit.dumps(document)


def _check(text: str, wanted: JSON) -> None:
    if not _means(text, wanted):
        raise BadToml(_UNSAFE)


def _means(text: str, wanted: JSON) -> bool:
    """Whether a text has just these settings; a table of providers that is empty counts as none."""
    try:
        return _plain(parse(text)) == _plain(wanted)
    except BadToml:
        return False


def _plain(settings: JSON) -> JSON:
    return {k: v for k, v in settings.items() if k != PROVIDERS or v != {}}


def _document(text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise BadToml(str(error)) from None


def _is_inline(text: str) -> bool:
    return isinstance(_document(text).get(PROVIDERS), InlineTable)


def _add_inline(text: str, name: str, provider: JSON) -> str:
    document = _document(text)
    entry = tomlkit.inline_table()
    entry.update(provider)
    document[PROVIDERS][name] = entry
    return tomlkit.dumps(document)


def _replace(text: str, values: JSON) -> str:
    """Other values for keys that are there; the comments behind them stay."""
    if not values:
        return text
    document = _document(text)
    for key, value in values.items():
        document[key] = value
    return tomlkit.dumps(document)


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
    return name if is_bare else _value(name)


def _value(value: Any) -> str:
    """A string, a boolean or a number: JSON's form of them is TOML's (but for DEL)."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
