"""Every error that can reach a client, and its three wire forms (HTTP body, WebSocket frame, `response.failed`).

Two families, as in h11: `RequestError` is the agent's fault, `UpstreamError` the model server's; `InternalError` is
ours. Nothing here ever carries a stack trace or an internal name.
"""

from collections.abc import Mapping
from typing import Any

# An upstream's message may quote a whole request (vLLM's union dump has 240 lines): enough to read, not to flood.
MAX_MESSAGE_CHARS = 4096


class GatewayError(Exception):
    """An error in the API's own shape.

    Args:
        message: one or more sentences for the client.
        status: HTTP status; also the numeric `status` of a WebSocket error frame.
        code: machine-readable code or None (`context_length_exceeded`, …).
        type: error family of the API (`invalid_request_error`, `server_error`, …).
        param: the field at fault, as a path (`input[2].call_id`).
        headers: response headers that belong to the error (`Retry-After`).
    """

    default_status = 500
    default_type = "server_error"

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        type: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        if len(message) > MAX_MESSAGE_CHARS:
            message = message[:MAX_MESSAGE_CHARS] + " … [truncated]"
        super().__init__(message)
        self.message = message
        self.status = self.default_status if status is None else status
        self.code = code
        self.type = self.default_type if type is None else type
        self.param = param
        self.headers = dict(headers or {})

    def fields(self) -> dict[str, Any]:
        """The four keys that the API always sends (responses-api: Error.required)."""
        return {
            "message": self.message,
            "type": self.type,
            "param": self.param,
            "code": self.code,
        }

    def body(self) -> dict[str, Any]:
        """HTTP body."""
        return {"error": self.fields()}

    def frame(self, stream_id: str | None = None) -> dict[str, Any]:
        """WebSocket frame. Codex 0.171 ignores one without a numeric `status` and hangs."""
        error = self.fields()
        if self.headers:
            error["headers"] = {name.lower(): value for name, value in self.headers.items()}
        frame: dict[str, Any] = {"type": "error", "status": self.status, "error": error}
        if self.headers:
            # Codex reads retry-after from the frame's own top level.
            frame["headers"] = error["headers"]
        if stream_id is not None:
            frame["stream_id"] = stream_id
        return frame

    def response_error(self) -> dict[str, Any]:
        """`response.error` of a failed response; the API always has a code there."""
        return {"code": self.code or "server_error", "message": self.message}


class RequestError(GatewayError):
    """The agent's fault: what it sent cannot be served as sent."""

    default_status = 400
    default_type = "invalid_request_error"


class UpstreamError(GatewayError):
    """The model server's fault: refused, broke off, or answered something that is no answer."""

    default_status = 502
    default_type = "server_error"


class InternalError(GatewayError):
    """Our own fault. The message stays general; the log has the rest."""
