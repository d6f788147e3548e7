"""Takes secrets out of text that leaves by a log: what looks like one, and those that we hold.

This is the second line. The first is that no code hands a secret to the log; but messages quote what
others sent, and a model server may quote the key that it was sent.
"""

import re
from collections.abc import Callable

HIDDEN = "[hidden]"
# A shorter "secret" stands in too many words that are none.
MIN_SECRET_CHARS = 6

# What can be told by its shape: our own keys and those of the usual services, credentials of a
# header, a password in a URL, a key in a query.
_SHAPES = re.compile(
    r"""
      \b(?:rgw_|sk-|gsk_|hf_|xai-)[A-Za-z0-9_\-]{6,}
    | (?<=://)[^/\s@"']+(?=@)
    | (?i:(?<=bearer\ )|(?<=basic\ ))[A-Za-z0-9._~+/=\-]{6,}
    | (?i:(?<=[?&]key=)|(?<=[?&]token=)|(?<=api_key=)|(?<=api-key=)|(?<=password=))[^&\s"']+
    """,
    re.VERBOSE,
)


def redactor(*secrets: str) -> Callable[[str], str]:
    """A function that takes these secrets, and what is shaped like one, out of a text."""
    known = sorted({s for s in secrets if len(s) >= MIN_SECRET_CHARS}, key=len, reverse=True)
    exact = re.compile("|".join(map(re.escape, known))) if known else None

    def redact(text: str) -> str:
        if exact is not None:
            text = exact.sub(HIDDEN, text)
        return _SHAPES.sub(HIDDEN, text)

    return redact


redact = redactor()
