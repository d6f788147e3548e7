"""Seals values that travel through the client: authenticated encryption under a key of this gateway.

AES-256-GCM; the text is the version mark, a fresh nonce and the ciphertext in URL-safe Base64. The key is made once and
kept in a file that only the owner can read: with another key every sealed value is foreign.
"""

import base64
import binascii
import contextlib
import os
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gateway.wire.json import JSON, MalformedJSON, dumps, loads

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
# What NIST SP 800-38D recommends for GCM.
NONCE_BYTES = 12
# Names the form; it is authenticated too, so that a value of another form can never be read as this one.
MARK = b"rgw1"


class KeySealer:
    """Seals and unseals under one key of `KEY_BYTES` bytes."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @cached_property
    def _cipher(self) -> "AESGCM":
        # Imported with the first sealed value: OpenSSL's binding is 6 MB, and most gateways never seal.
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(self._key)

    def seal(self, value: JSON) -> str:
        """The value as a text that only this key can read."""
        nonce = os.urandom(NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, dumps(value), MARK)
        return base64.urlsafe_b64encode(MARK + nonce + sealed).decode("ascii")

    def unseal(self, text: str) -> Any:
        """The value behind a sealed text.

        Raises:
            ValueError: not sealed under this key, altered, or cut.
        """
        try:
            raw = base64.urlsafe_b64decode(text.encode("ascii"))
        except (binascii.Error, UnicodeEncodeError):
            raise ValueError("not a sealed value") from None
        if not raw.startswith(MARK):
            raise ValueError("not a sealed value of this form")
        from cryptography.exceptions import InvalidTag

        nonce, sealed = raw[len(MARK) :][:NONCE_BYTES], raw[len(MARK) + NONCE_BYTES :]
        try:
            return loads(self._cipher.decrypt(nonce, sealed, MARK))
        except (InvalidTag, MalformedJSON, ValueError):
            raise ValueError("sealed under another key, or altered") from None


def new_key() -> bytes:
    """A key for this process alone."""
    return os.urandom(KEY_BYTES)


def load_key(path: Path) -> bytes:
    """The key in a file, made at the first call.

    Raises:
        OSError: the file can be neither read nor made.
        ValueError: it holds no key.
    """
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return _make_key(path)
    if len(key) != KEY_BYTES:
        raise ValueError(f"{path} holds {len(key)} bytes, a key has {KEY_BYTES}")
    return key


def _make_key(path: Path) -> bytes:
    """Written whole beside its place and then linked, so that two gateways starting at once share one key."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(new_key())
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        os.unlink(draft)
    return path.read_bytes()
