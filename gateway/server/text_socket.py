"""The WebSocket of aiohttp with what it lacks: a reason before a message that is too big, and a way to break it off."""

import asyncio
import struct

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.abc import AbstractStreamWriter

from gateway.errors import RequestError
from gateway.wire.json import dumps

# A peer that does not answer a Close frame is not waited for any longer.
CLOSE_SECONDS = 2.0
# Pings: a peer that vanished without a word is noticed within a minute.
PING_SECONDS = 30.0
# As much may wait in a socket's buffer before its turn waits (asyncio's own high-water mark).
MAX_UNSENT_BYTES = 64 * 1024


class TextSocket(web.WebSocketResponse):
    """aiohttp's socket, that says why before it closes on a message that is too big."""

    def __init__(self, max_message_bytes: int, *, compress: bool) -> None:
        super().__init__(
            timeout=CLOSE_SECONDS,
            heartbeat=PING_SECONDS,
            compress=compress,
            max_msg_size=max_message_bytes + 1,  # aiohttp refuses a message of exactly its limit
            decode_text=False,
        )
        self._max_message_bytes = max_message_bytes
        self._transport: asyncio.Transport | None = None
        self._stream: AbstractStreamWriter | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        self._transport = request.transport
        self._stream = await super().prepare(request)
        return self._stream

    async def send_texts(self, texts: list[bytes]) -> None:
        """Each a text frame, all of them in one write; awaiting it is the back-pressure.

        Raises:
            ConnectionError: the socket is closed, or closes.
        """
        transport, stream = self._transport, self._stream
        if self.compress or transport is None or stream is None:
            for text in texts:
                await self.send_frame(text, WSMsgType.TEXT)
            return
        if self.closed or transport.is_closing():
            raise ConnectionResetError("the socket is closing")
        parts: list[bytes] = []
        for text in texts:
            parts.append(_text_header(len(text)))
            parts.append(text)
        transport.write(b"".join(parts))
        if transport.get_write_buffer_size() > MAX_UNSENT_BYTES:
            await stream.drain()

    def abort(self) -> None:
        """Break the connection off, without a Close frame that the peer would not read."""
        if self._transport is not None:
            self._transport.abort()

    async def close(
        self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True
    ) -> bool:
        if code == WSCloseCode.MESSAGE_TOO_BIG and not self.closed:
            error = RequestError(
                f"The message is larger than the limit of {self._max_message_bytes} bytes.",
                status=413,
                code="request_too_large",
            )
            await self.send_frame(dumps(error.frame()), WSMsgType.TEXT)
        return await super().close(code=code, message=message, drain=drain)


def _text_header(length: int) -> bytes:
    """Of a whole, unmasked text frame (RFC 6455 section 5.2)."""
    if length < 126:
        return bytes((_TEXT, length))
    if length < 1 << 16:
        return _SHORT.pack(_TEXT, 126, length)
    return _LONG.pack(_TEXT, 127, length)


# FIN and the opcode of text; then the length in two bytes or in eight.
_TEXT = 0x81
_SHORT = struct.Struct("!BBH")
_LONG = struct.Struct("!BBQ")
