"""llguidance as the referee: the engine whose dialect OpenAI's grammars are written in, one token per byte."""

import functools
import json
import tomllib
from pathlib import Path
from typing import Any

from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

HERE = Path(__file__).parent
GRAMMARS: list[dict[str, Any]] = tomllib.loads((HERE / "grammars.toml").read_text("utf-8"))[
    "grammar"
]
CODEX = {path.stem: path.read_text("utf-8") for path in sorted((HERE / "grammars").glob("*.lark"))}


class _Bytes:
    eos_token_id = 256
    bos_token_id = None
    tokens = (*(bytes([value]) for value in range(256)), b"<end>")
    special_token_ids = (256,)

    def __call__(self, text: str | bytes) -> list[int]:
        return list(text.encode() if isinstance(text, str) else text)


_TOKENIZER = LLTokenizer(TokenizerWrapper(_Bytes()))


@functools.lru_cache(maxsize=500)
def _matcher(syntax: str, definition: str) -> LLMatcher:
    make = LLMatcher.grammar_from_lark if syntax == "lark" else LLMatcher.grammar_from_regex
    return LLMatcher(_TOKENIZER, make(definition), log_level=0)


def loads(syntax: str, definition: str) -> bool:
    """Whether llguidance takes the definition."""
    return not _matcher(syntax, definition).is_error()


def judge(syntax: str, definition: str, text: str) -> tuple[bool, int]:
    """Whether the text is accepted, and how many of its characters are a prefix of an accepted one."""
    matcher = _matcher(syntax, definition).deep_copy()
    assert not matcher.is_error(), matcher.get_error()
    data = text.encode()
    taken = matcher.try_consume_tokens(list(data))
    accepted = taken == len(data) and matcher.is_accepting()
    return accepted, len(data[:taken].decode("utf-8", "ignore"))


def schema_admits(pattern: str, text: str) -> bool:
    """Whether a JSON schema with this `pattern` admits the text, as llguidance reads schemas."""
    schema = {"type": "string", "pattern": pattern}
    matcher = LLMatcher(_TOKENIZER, LLMatcher.grammar_from_json_schema(schema), log_level=0)
    assert not matcher.is_error(), matcher.get_error()
    data = json.dumps(text, ensure_ascii=False).encode()
    return matcher.try_consume_tokens(list(data)) == len(data) and matcher.is_accepting()
