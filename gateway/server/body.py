"""Request bodies: read within a bound, decompressed within the same bound, and decoded as JSON.

Codex sends zstd when it is logged in with ChatGPT (codex-cli 0.171). aiohttp's own decompression is
off: its errors would not be in the API's shape.
"""

import sys
import zlib
from collections.abc import Callable
from typing import Any, Protocol

from aiohttp import web

from gateway.errors import RequestError
from gateway.wire.json import MalformedJSON, loads

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# gzip inside zstd inside … : nobody means it, and each layer multiplies what a bomb can hold.
MAX_ENCODINGS = 2
# Members or frames of one compressed body: parallel compressors write one for each 64 KiB or more.
MAX_MEMBERS = 4096
# Read piece by piece: what follows a member is copied when it ends, and must not be the whole body.
_PIECE_BYTES = 64 * 1024


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


async def read_json(request: web.Request, limit: int) -> Any:
    """The body of a request, decoded.

    Raises:
        RequestError: too large (413), an unknown encoding (415), damaged or no JSON (400).
    """
    return parse(decode(await _read(request, limit), _encodings(request), limit))


def parse(data: bytes) -> Any:
    """One JSON text of a client.

    Raises:
        RequestError: in words that show where it breaks.
    """
    try:
        return loads(data)
    except MalformedJSON as error:
        raise RequestError(f"The body could not be parsed as JSON: {error}.") from None


def decode(data: bytes, encodings: list[str], limit: int) -> bytes:
    """Take the content encodings off, the last one first.

    Raises:
        RequestError: see `read_json`.
    """
    if len(encodings) > MAX_ENCODINGS:
        raise RequestError("The body is compressed too often.", status=415)
    for encoding in reversed(encodings):
        make = _DECOMPRESSORS.get(encoding)
        if make is None:
            known = ", ".join(sorted(_DECOMPRESSORS))
            raise RequestError(
                f"Unsupported content encoding: '{encoding}'. Supported are: {known}.", status=415
            )
        data = _decompress(data, encoding, make, limit)
    return data


def too_large(limit: int) -> RequestError:
    """The 413 of the API."""
    return RequestError(
        f"The request is larger than the limit of {limit} bytes.",
        status=413,
        code="request_too_large",
    )


async def _read(request: web.Request, limit: int) -> bytes:
    if request.content_length is not None and request.content_length > limit:
        raise too_large(limit)
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large(limit) from None


def _encodings(request: web.Request) -> list[str]:
    header = ",".join(request.headers.getall("Content-Encoding", []))
    names = [name.strip().lower() for name in header.split(",")]
    return [name for name in names if name and name != "identity"]


def _decompress(
    data: bytes, encoding: str, make: Callable[[bytes], _Decompressor], limit: int
) -> bytes:
    """All members of a compressed body; a body that would grow past the limit stops there."""
    parts: list[bytes] = []
    at, room, members = 0, limit, 1
    decompressor = make(data[:1])
    while at < len(data) or not decompressor.eof:
        if decompressor.eof:
            members += 1
            if members > MAX_MEMBERS:
                raise RequestError(f"The body has more than {MAX_MEMBERS} {encoding} members.")
            decompressor = make(data[at : at + 1])
        piece = data[at : at + _PIECE_BYTES]
        if not piece:
            raise _damaged(encoding)
        try:
            part = decompressor.decompress(piece, room + 1)
        except (zlib.error, zstd.ZstdError, EOFError):
            raise _damaged(encoding) from None
        at += len(piece) - len(decompressor.unused_data)
        room -= len(part)
        if room < 0:
            raise too_large(limit)
        parts.append(part)
    return b"".join(parts)


def _damaged(encoding: str) -> RequestError:
    return RequestError(f"The body is not valid {encoding} data.")


def _gzip(data: bytes) -> _Decompressor:
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


def _deflate(data: bytes) -> _Decompressor:
    # RFC 9110 means zlib; raw deflate is what some clients send. The first byte tells.
    is_zlib = data[:1] and data[0] & 0x0F == zlib.DEFLATED
    return zlib.decompressobj(zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS)


def _zstd(data: bytes) -> _Decompressor:
    return zstd.ZstdDecompressor()


_DECOMPRESSORS: dict[str, Callable[[bytes], _Decompressor]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
}
