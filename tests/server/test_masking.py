"""Secrets become stars of the same length, wherever they stand; what is no secret stays."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.server.masking import Masker, shown_secrets

KEY = "plainKey-5f1c"


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("a key sk-abc123def and more", "a key ************ and more"),
        ("rgw_abcdefgh", "************"),
        ("Authorization: Bearer abc123def456", "Authorization: Bearer ************"),
        ("basic understanding of bearer tokens", "basic understanding of bearer tokens"),
        ("http://user:secret@host/v1", "http://***********@host/v1"),
        ("https://host/x?a=1&api_key=abc&b=2", "https://host/x?a=1&api_key=***&b=2"),
        ("https://host/x?X-Amz-Signature=abc#top", "https://host/x?X-Amz-Signature=***#top"),
        ('{"api_key": "a\\"b", "x": "y"}', '{"api_key": "****", "x": "y"}'),
        ('{"Authorization":"anything at all"}', '{"Authorization":"***************"}'),
        (
            '{"arguments":"{\\"password\\": \\"hunter\\"}"}',
            '{"arguments":"{\\"password\\": \\"******\\"}"}',
        ),
        (
            '{"properties":{"password":{"type":"string"}}}',
            '{"properties":{"password":{"type":"string"}}}',
        ),
        (f"it was {KEY}, grün", f"it was {'*' * len(KEY)}, grün"),
        ("a task-list and the sky-blue", "a task-list and the sky-blue"),
    ],
)
def test_what_is_masked(text: str, masked: str) -> None:
    assert Masker([KEY]).text(text) == masked


@given(st.text(), st.lists(st.integers(0, 60), max_size=4))
def test_a_secret_is_masked_however_the_stream_is_cut(around: str, cuts: list[int]) -> None:
    data = f"{around} {KEY} {around}".encode("utf-8", "replace")
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    masked = Masker([KEY]).pieces(pieces)
    assert [len(piece) for piece in masked] == [len(piece) for piece in pieces]
    assert KEY.encode() not in b"".join(masked)


@given(st.text(alphabet='sk-"\\{}:=?&@/ api_keypassword\nBearer 0123', max_size=80))
def test_masked_json_is_json_and_masking_twice_is_masking_once(text: str) -> None:
    data = json.dumps({"text": text, "inner": json.dumps({"password": text})}).encode()
    masker = Masker([KEY])
    masked = masker.mask(data)
    assert len(masked) == len(data)
    assert json.loads(masked).keys() == {"text", "inner"}
    assert masker.mask(masked) == masked


def test_a_secret_inside_json_is_known_with_its_escapes() -> None:
    secret = 'quote"and\\slash'
    data = json.dumps({"said": f"the key {secret} was wrong"}).encode()
    assert json.loads(Masker([secret]).mask(data))["said"].startswith("the key ***")
    assert b"slash" not in Masker([secret]).mask(data)


def test_headers_keep_their_names() -> None:
    headers = [
        ("Authorization", "Bearer x"),
        ("X-API-Key", "x"),
        ("Set-Cookie", "a=b"),
        ("x-goog-api-key", "x"),
        ("Content-Type", "text/plain"),
        ("Referer", "http://u:p@h/"),
    ]
    assert Masker().headers(headers) == [
        ["Authorization", "*" * 8],
        ["X-API-Key", "*" * 8],
        ["Set-Cookie", "*" * 8],
        ["x-goog-api-key", "*" * 8],
        ["Content-Type", "text/plain"],
        ["Referer", "http://***@h/"],
    ]


def test_the_secrets_that_a_request_shows() -> None:
    headers = [
        ("Authorization", "Bearer theKey"),
        ("Cookie", "session=theSession; other=x"),
        ("x-api-key", "another"),
        ("Sec-WebSocket-Key", "no secret"),
        ("Accept", "*/*"),
    ]
    assert shown_secrets(headers) == [
        *("Bearer theKey", "theKey"),
        *("theSession", "x"),
        *("another", "another"),
    ]


def test_short_secrets_are_no_secrets() -> None:
    assert Masker(["abc"]).text("abcabc") == "abcabc"
