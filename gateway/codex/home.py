"""Codex's home folder, as far as it concerns us: writes a setup into it, and takes it out again.

A record of what was written makes `undo` exact: a file that nobody has touched since gets its old
bytes back, of another one only our part is taken out. What was not written here is never touched.
"""

import hashlib
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from gateway.codex import toml_text
from gateway.codex.setup import (
    CONFIG_FILE,
    DEFAULT_NAME,
    Wanted,
    catalog_text,
    file_names,
    profile,
    provider,
    top_settings,
)
from gateway.wire.json import dumps_str

# Codex's home holds keys and histories.
_HOME_MODE = 0o700
_FILE_MODE = 0o600


class SetupError(Exception):
    """Nothing was changed. The message is one sentence that says what to do."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """One file in the record.

    Attributes:
        sha256: of the bytes that were written.
        backup: the name of the copy of what was there before; "" when there was no file.
        edit: what was put into it; None for a file that is wholly ours.
    """

    sha256: str
    backup: str = ""
    edit: toml_text.Edit | None = None


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a setup has written, by file name."""

    files: dict[str, Written]
    made_home: bool = False


def codex_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Where Codex looks: `CODEX_HOME`, else `~/.codex`."""
    given = environ.get("CODEX_HOME", "")
    return Path(given) if given else Path.home() / ".codex"


class Home:
    """Codex's folder, as far as it concerns us.

    Args:
        path: where it is; it need not be there.
        name: of the provider.
    """

    def __init__(self, path: Path, name: str = DEFAULT_NAME) -> None:
        self.path = path
        self.name = name
        self._record = path / f"{name}-setup.json"

    def write(self, wanted: Wanted) -> list[str]:
        """Put everything there; what has changed, in words. Nothing when all of it is there.

        Raises:
            SetupError: nothing was changed.
        """
        record = self._read_record()
        # Everything is worked out before anything is written.
        base, had_config = self._base(record)
        top = profile(wanted, self.path / file_names(self.name)[1])
        try:
            text, edit = toml_text.add(base, self.name, provider(wanted), top_settings(wanted, top))
        except toml_text.BadToml as error:
            raise SetupError(f"{self.path / CONFIG_FILE} cannot be edited: {error}.") from None
        except toml_text.Taken:
            raise SetupError(
                f"{self.path / CONFIG_FILE} has a provider {self.name!r} that was not written by this "
                "command: remove it, or choose another name with --name."
            ) from None
        own = {file_names(self.name)[0]: toml_text.table("", top)}
        if wanted.models:
            own[file_names(self.name)[1]] = catalog_text(wanted)
        self._check_own(own, record)
        try:
            return self._store(record, base if had_config else None, text, edit, own)
        except OSError as error:
            raise _denied(error) from None

    def undo(self) -> list[str]:
        """Take everything out again; what was done, in words. Empty when nothing was written.

        Raises:
            SetupError: nothing was changed.
        """
        record = self._read_record()
        if record is None:
            return []
        config = record.files[CONFIG_FILE]
        now = self._read(CONFIG_FILE)
        said: list[str] = []
        text, left = self._undone(config, now)
        try:
            if text is None:
                self._target(CONFIG_FILE).unlink(missing_ok=True)
            elif text != now:
                self._put(CONFIG_FILE, text)
            said.append(self._config_word(config, now, left))
            for name, written in record.files.items():
                if name != CONFIG_FILE:
                    said += self._remove_own(name, written)
            if config.backup:
                (self.path / config.backup).unlink(missing_ok=True)
            self._record.unlink()
            if record.made_home:
                with suppress(OSError):  # something else lives there by now
                    self.path.rmdir()
        except OSError as error:
            raise _denied(error) from None
        return said

    # ------------------------------------------------------------------------------- working out

    def _base(self, record: Record | None) -> tuple[str, bool]:
        """The configuration without us, and whether there was one."""
        now = self._read(CONFIG_FILE)
        if record is None:
            return now or "", now is not None
        text, left = self._undone(record.files[CONFIG_FILE], now)
        if left:
            raise SetupError(
                f"{' and '.join(left)} in {self.path / CONFIG_FILE} has been changed since it was written: "
                "run --undo, remove it by hand, then --write again."
            )
        return text or "", text is not None

    def _undone(self, written: Written, now: str | None) -> tuple[str | None, list[str]]:
        """The configuration as it is without us (None: no file), and what must stay."""
        if now is None:
            return None, []
        if _sha(now) == written.sha256:
            if not written.backup:
                return None, []
            before = self._read(written.backup)
            if before is not None:
                return before, []
        assert written.edit is not None
        try:
            text, left = toml_text.remove(now, written.edit)
        except toml_text.BadToml as error:
            raise SetupError(
                f"{self.path / CONFIG_FILE} has been changed and cannot be edited: {error}."
            ) from None
        return (None if not text.strip() and not written.backup else text), left

    def _check_own(self, own: Mapping[str, str], record: Record | None) -> None:
        for name in own:
            now = self._read(name)
            known = record.files.get(name) if record else None
            if now is None or now == own[name] or (known and known.sha256 == _sha(now)):
                continue
            raise SetupError(
                f"{self.path / name} is there already and was not written by this command, or was "
                "changed since: move it away, or choose another name with --name."
            )

    # ----------------------------------------------------------------------------------- writing

    def _store(
        self,
        record: Record | None,
        before: str | None,
        text: str,
        edit: toml_text.Edit,
        own: Mapping[str, str],
    ) -> list[str]:
        """Backup first, then the record, then the files: whatever breaks off can be undone."""
        made_home = not self.path.exists() or bool(record and record.made_home)
        self.path.mkdir(mode=_HOME_MODE, parents=True, exist_ok=True)
        old = record.files[CONFIG_FILE].backup if record else ""
        backup = "" if before is None else old or self._free_name()
        files = {CONFIG_FILE: Written(sha256=_sha(text), backup=backup, edit=edit)}
        for name in own:
            files[name] = Written(sha256=_sha(own[name]))
        made = Record(files=files, made_home=made_home)
        if before is not None and self._read(backup) != before:
            self._put(backup, before)
        if made != record:
            self._put(self._record.name, dumps_str(msgspec.to_builtins(made)) + "\n")
        changed = [n for n, t in {**own, CONFIG_FILE: text}.items() if self._read(n) != t]
        for name in changed:
            self._put(name, text if name == CONFIG_FILE else own[name])
        stale = set(record.files) - set(files) if record else set()
        for name in stale:
            assert record is not None
            self._remove_own(name, record.files[name])
        words = [f"wrote {self.path / name}" for name in changed]
        if changed and backup:
            words.append(f"kept the old configuration as {self.path / backup}")
        return words

    def _free_name(self) -> str:
        name = f"{CONFIG_FILE}.before-{self.name}"
        number = 1
        while (self.path / name).exists():
            number += 1
            name = f"{CONFIG_FILE}.before-{self.name}-{number}"
        return name

    def _config_word(self, written: Written, now: str | None, left: list[str]) -> str:
        path = self.path / CONFIG_FILE
        if left:
            return (
                f"took out of {path} what was ours; {' and '.join(left)} has been changed since and "
                "stays: remove it by hand"
            )
        if now is None:
            return f"{path} is gone already"
        if _sha(now) == written.sha256:
            return f"restored {path}" if written.backup else f"removed {path}"
        return f"{path} has been edited since: took out only what was ours, your changes stay"

    def _remove_own(self, name: str, written: Written) -> list[str]:
        now = self._read(name)
        if now is None:
            return []
        if _sha(now) != written.sha256:
            return [f"{self.path / name} has been changed since and stays"]
        (self.path / name).unlink()
        return [f"removed {self.path / name}"]

    def _read_record(self) -> Record | None:
        text = self._read(self._record.name)
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=Record)
        except (msgspec.ValidationError, msgspec.DecodeError):
            raise SetupError(
                f"{self._record} is damaged: what was written cannot be known. Take the table of the "
                f"provider {self.name!r} out of {CONFIG_FILE} by hand and delete that file."
            ) from None

    def _read(self, name: str) -> str | None:
        """A file's text, its line ends as they are; None when there is none."""
        path = self.path / name
        try:
            return path.read_bytes().decode()
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise SetupError(f"{path} is not UTF-8 text: it is left as it is.") from None
        except OSError as error:
            raise _denied(error) from None

    def _target(self, name: str) -> Path:
        """A link (a folder of dotfiles) stays one: what it points at is written."""
        return (self.path / name).resolve()

    def _put(self, name: str, text: str) -> None:
        """All of it or nothing; the file's mode stays."""
        path = self._target(name)
        mode = path.stat().st_mode & 0o777 if path.exists() else _FILE_MODE
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
            os.chmod(temporary, mode)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def _denied(error: OSError) -> SetupError:
    return SetupError(
        f"{error.filename} cannot be used ({(error.strerror or str(error)).lower()}): mend that, or set "
        "CODEX_HOME to another folder."
    )


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
