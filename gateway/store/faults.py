"""What goes wrong with a file, in words for whoever runs the gateway.

SQLite's own words stand behind them in brackets. Its result codes are taken by their names.
"""

from pathlib import Path
from typing import Final

# Primary result code -> what is the matter, and what to do.
_WORDS: Final[dict[str, str]] = {
    "SQLITE_BUSY": "is locked by another program: end that one, or name another --store",
    "SQLITE_CANTOPEN": "cannot be opened: give this user the right to, or name another --store",
    "SQLITE_CORRUPT": "is damaged: move it away or restore a copy, then start again",
    "SQLITE_FULL": "cannot grow: the disk is full",
    "SQLITE_IOERR": "cannot be read or written: the disk reports an error",
    "SQLITE_NOTADB": "is damaged, or no SQLite database: move it away, or name another --store",
    "SQLITE_PERM": "may not be used by this user: give it the right, or name another --store",
    "SQLITE_READONLY": "is read-only: give this user the right to write, or name another --store",
}


def words(path: Path, error: Exception) -> str:
    """One sentence about an error with that file."""
    if isinstance(error, TimeoutError):
        return f"The store {path} {_WORDS['SQLITE_BUSY']} ({error})."
    if isinstance(error, FileNotFoundError):
        return f"The store {path} is gone: bring it back, or restart the gateway to make a new one."
    if isinstance(error, OSError):
        return f"The store {path} cannot be used: {error.strerror or error}."
    known = _WORDS.get(_primary(error))
    return f"The store {path} {known} ({error})." if known else f"The store {path}: {error}."


def is_busy(error: Exception) -> bool:
    """Whether somebody else holds the file, and trying again may help."""
    return isinstance(error, TimeoutError) or _primary(error) in ("SQLITE_BUSY", "SQLITE_LOCKED")


def _primary(error: Exception) -> str:
    """`SQLITE_IOERR` of `SQLITE_IOERR_WRITE`."""
    name = getattr(error, "sqlite_errorname", "")
    return "_".join(name.split("_")[:2])
