"""Takes secrets out of a recording without moving anything: each character of one becomes a star.

The same length keeps the places where an answer was cut, keeps JSON as JSON, and says the same for the
same text, so that a masked request still leads to the masked answer when it is run again.
"""

import re
from collections.abc import Iterable

from gateway.wire.json import dumps_str

STAR = "*"
# A shorter "secret" stands in too many words that are none.
MIN_SECRET_CHARS = 6

_NAMES = (
    r"(?:proxy-)?authorization|(?:x-)?api[_-]?key|x-goog-api-key|(?:set-)?cookie|password|passwd|"
    r"secret|(?:access|refresh|auth)[_-]?token|client[_-]?secret"
)
# A group is what is masked, the whole match where there is none.
_SHAPES = re.compile(
    rf"""
      \b(?:rgw_|sk-|gsk_|hf_|xai-|AIza|gh[pousr]_|github_pat_)[A-Za-z0-9_\-]{{6,}}
    | (?i:\b(?:bearer|basic))\s+((?=[A-Za-z._~+/=\-]*[0-9])[A-Za-z0-9._~+/=\-]{{8,}})
    | ://([^/\s@"'\\<>]+)@
    | (?i:[?&;][\w.\-]*(?:key|token|secret|signature|sig|password|credential)=)([^&\s"'\\#<>]+)
    | (?i:"(?:{_NAMES})"\s*:\s*)"((?:[^"\\]|\\.)*)"
    | (?i:\\"(?:{_NAMES})\\"\s*:\s*)\\"([^"\\]*)\\"
    """,
    re.VERBOSE,
)
_is_secret_header = re.compile(
    r"auth|key|cookie|token|secret|password|signature|credential", re.IGNORECASE
).search


class Masker:
    """Masks these secrets, and what is shaped like one.

    Args:
        secrets: those that the gateway holds or was shown.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in _forms(secret)}
        known = sorted((f for f in forms if len(f) >= MIN_SECRET_CHARS), key=len, reverse=True)
        # Bytes are read as Latin-1, one character each.
        texts = [form.encode().decode("latin-1") for form in known]
        self._known = re.compile("|".join(map(re.escape, texts))) if texts else None

    def mask(self, data: bytes) -> bytes:
        """The same bytes, as many of them."""
        text = data.decode("latin-1")
        if self._known is not None:
            text = self._known.sub(_stars, text)
        return _SHAPES.sub(_stars, text).encode("latin-1")

    def pieces(self, pieces: list[bytes]) -> list[bytes]:
        """A stream in its pieces; a secret that is cut by them is masked as well."""
        whole = self.mask(b"".join(pieces))
        masked = []
        at = 0
        for piece in pieces:
            masked.append(whole[at : at + len(piece)])
            at += len(piece)
        return masked

    def headers(self, headers: Iterable[tuple[str, str]]) -> list[list[str]]:
        """Headers whose name says that they hold a secret keep only their names."""
        return [
            [name, STAR * 8 if _is_secret_header(name) else self.text(value)]
            for name, value in headers
        ]

    def text(self, text: str) -> str:
        """The same for a text."""
        return self.mask(text.encode("utf-8", "replace")).decode("utf-8", "replace")


def shown_secrets(headers: Iterable[tuple[str, str]]) -> list[str]:
    """The secrets in a request's headers, to be masked wherever else they stand."""
    found: list[str] = []
    for name, value in headers:
        if name.lower() == "cookie":
            found += [part.partition("=")[2].strip() for part in value.split(";")]
        elif _is_secret_header(name) and not name.lower().startswith("sec-websocket"):
            found += [value, value.rpartition(" ")[2]]
    return found


def _forms(secret: str) -> tuple[str, str]:
    """As it is, and as it stands inside a JSON string."""
    return secret, dumps_str(secret)[1:-1]


def _stars(match: re.Match[str]) -> str:
    group = match.lastindex
    if group is None:
        return STAR * len(match[0])
    start, end = match.start(group) - match.start(), match.end(group) - match.start()
    return f"{match[0][:start]}{STAR * (end - start)}{match[0][end:]}"
