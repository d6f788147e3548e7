"""How a row lies in a store: JSON, compressed, with a sum that tells whether it is whole.

Two parts, since a chain is read without its Response objects: those repeat tools and instructions,
and are most of the bytes. The output items are in the first part; the second leaves them out.

zstd at level 1 makes a Response of a coding agent 3 to 40 times smaller and takes 0.05 ms for 50 KB:
less than writing the rest would. Small parts stay as they are: a chain of 200 turns is read three
times as fast then. JSON, not MessagePack: it has no bound on integers.
"""

import sys
import zlib
from typing import NamedTuple

import msgspec

from gateway.store.protocol import JSON, Link, Row

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LEVEL = 1
# Of the sum before each part.
SUM_BYTES = 4
# A smaller part is not compressed: making a decompressor takes 10 us, as long as decoding 10 KB.
MIN_COMPRESSED_BYTES = 16 * 1024
# The byte behind the sum: how the rest is written.
PLAIN, ZSTD = b"p", b"z"


class Damaged(ValueError):
    """A part that is not what was once packed."""


class Packed(NamedTuple):
    """The two parts of a row."""

    items: bytes
    response: bytes


class _Items(msgspec.Struct, array_like=True):
    input: list[JSON]
    given: list[JSON]
    prefix: list[JSON]
    starts_over: bool
    # The response's output is `given`, and not written twice.
    shares_output: bool


_encoder = msgspec.json.Encoder()
_items_decoder = msgspec.json.Decoder(_Items)
_response_decoder = msgspec.json.Decoder(dict)


def pack(row: Row) -> Packed:
    """The parts of a row."""
    response = row.response
    shares_output = response.get("output") == row.given
    if shares_output:
        response = {**response, "output": None}
    items = _Items(row.input, row.given, row.prefix, row.starts_over, shares_output)
    return Packed(
        _wrap(_encoder.encode(items), f"items {row.id}"),
        _wrap(_encoder.encode(response), f"response {row.id}"),
    )


def unpack_link(id: str, previous_id: str | None, items: bytes) -> Link:
    """What a row adds to its chain.

    Raises:
        Damaged: the part has been cut or altered, or is another row's.
    """
    found = _items(id, items)
    return Link(
        id=id,
        previous_id=previous_id,
        input=found.input,
        given=found.given,
        prefix=found.prefix,
        starts_over=found.starts_over,
    )


def unpack_row(
    id: str, owner: str, previous_id: str | None, created_at: int, packed: Packed
) -> Row:
    """The whole row.

    Raises:
        Damaged: a part has been cut or altered, or is another row's.
    """
    found = _items(id, packed.items)
    response: JSON = _response_decoder.decode(_unwrap(packed.response, f"response {id}"))
    if found.shares_output:
        response["output"] = found.given
    return Row(
        id=id,
        owner=owner,
        previous_id=previous_id,
        created_at=created_at,
        response=response,
        input=found.input,
        given=found.given,
        prefix=found.prefix,
        starts_over=found.starts_over,
    )


def _items(id: str, part: bytes) -> _Items:
    return _items_decoder.decode(_unwrap(part, f"items {id}"))


def _wrap(text: bytes, name: str) -> bytes:
    """The sum goes over the name too: a part that lies in another row's place is noticed."""
    is_small = len(text) < MIN_COMPRESSED_BYTES
    body = PLAIN + text if is_small else ZSTD + zstd.compress(text, LEVEL)
    return _sum(body, name) + body


def _unwrap(part: bytes, name: str) -> bytes:
    body = part[SUM_BYTES:]
    if part[:SUM_BYTES] != _sum(body, name):
        raise Damaged(f"{name}: its sum is wrong")
    return body[1:] if body.startswith(PLAIN) else zstd.decompress(memoryview(body)[1:])


def _sum(body: bytes, name: str) -> bytes:
    return zlib.crc32(body, zlib.crc32(name.encode())).to_bytes(SUM_BYTES, "big")
