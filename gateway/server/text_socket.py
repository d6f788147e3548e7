"""The WebSocket of aiohttp with what it lacks: a reason before a message that is too big, and a way to break it off."""

import asyncio

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.abc import AbstractStreamWriter

from gateway.errors import RequestError
from gateway.wire.json import dumps

# A peer that does not answer a Close frame is not waited for any longer.
CLOSE_SECONDS = 2.0
# Pings: a peer that vanished without a word is noticed within a minute.
PING_SECONDS = 30.0


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

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter:
        self._transport = request.transport
        return await super().prepare(request)

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
