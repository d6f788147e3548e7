"""Frames that a socket sends of itself: refusals, in the documented words, and what is not supported."""

from gateway.errors import RequestError
from gateway.wire.json import JSON

# The API's own limit (guide: WebSocket mode).
MAX_NAMED_LANES = 32


def steer_failed(frame: JSON) -> JSON:
    """Steering needs a model that takes input while it speaks; the input goes back."""
    error = {
        "type": "invalid_request_error",
        "code": "steering_not_supported",
        "message": "This gateway does not support steering.",
    }
    return {
        "type": "response.steer.failed",
        "sequence_number": 0,  # of no response
        "error": error,
        "steer": {key: frame.get(key) for key in ("previous_response_id", "input")},
    }


def inject_failed(frame: JSON) -> JSON:
    """The same of the multi-agent beta, which has no word for what is not supported."""
    error = {
        "code": "response_not_found",
        "message": "This gateway does not support input into a running response.",
    }
    return {
        "type": "response.inject.failed",
        "sequence_number": 0,
        "response_id": frame.get("response_id"),
        "input": frame.get("input"),
        "error": error,
    }


def connection_limit(seconds: float) -> RequestError:
    minutes = f"{seconds / 60:g}"
    return RequestError(
        f"Responses websocket connection limit reached ({minutes} minutes). "
        "Create a new websocket connection to continue.",
        code="websocket_connection_limit_reached",
    )


def too_many_lanes() -> RequestError:
    return RequestError(
        "This WebSocket connection has reached its maximum number of distinct stream IDs "
        f"({MAX_NAMED_LANES}). Reuse an existing stream_id or open a new WebSocket connection.",
        code="websocket_stream_limit_reached",
        param="stream_id",
    )


def too_many_waiting() -> RequestError:
    return RequestError(
        "Too many requests wait on this WebSocket connection. Wait for their responses first.",
        status=429,
        code="rate_limit_exceeded",
    )
