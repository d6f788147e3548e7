"""An error in words that can stand on a page: what has happened and what to do, never what was quoted.

A server's own message may quote the prompt or a key. These words are all ours; the log has the message.
"""

import asyncio

from gateway.errors import GatewayError, InternalError, UpstreamError
from gateway.server.delivery import ClientGone

# The client chooses a part of a path in its request.
MAX_PARAM_CHARS = 80

_CODES = {
    "context_length_exceeded": "The conversation is longer than the model's context.",
    "content_filter": "The model server's filter has stopped the answer.",
    "insufficient_quota": "The model server's account has no quota left.",
    "invalid_api_key": "The key was not accepted.",
    "invalid_encrypted_content": "A compaction item was made by another gateway, or altered.",
    "invalid_stream_id": "The client's stream_id cannot be used.",
    "model_not_found": "The model server does not know this model.",
    "previous_response_not_found": "What the client wants to continue is not there.",
    "rate_limit_exceeded": "Too many requests at the moment.",
    "request_too_large": "The request is too large.",
    "store_unavailable": "The store cannot be reached.",
    "upstream_broke_off": "The model server broke off its answer.",
    "upstream_timeout": "The model server did not answer in time.",
    "upstream_unreachable": "The model server cannot be reached.",
}
_UPSTREAM_STATUS = {
    400: "The model server refuses the request.",
    401: "The model server does not accept the gateway's key.",
    403: "The model server does not allow this.",
    404: "The model server has no such model or path.",
    408: "The model server did not answer in time.",
    409: "The model server is busy with another request.",
    413: "The request is too large for the model server.",
    422: "The model server refuses the request.",
    429: "The model server is asked too often.",
    502: "The model server's answer was not complete, or not readable.",
    503: "The model server is loading or overloaded.",
    504: "The model server did not answer in time.",
}


def in_words(error: BaseException) -> str:
    """One sentence of ours."""
    if isinstance(error, ClientGone | asyncio.CancelledError):
        return "The client has gone."
    if isinstance(error, InternalError) or not isinstance(error, GatewayError):
        return "The gateway has failed; its log says where."
    if error.code in _CODES:
        return _CODES[error.code]
    if isinstance(error, UpstreamError):
        return _UPSTREAM_STATUS.get(error.status, "The model server reports an error.")
    if error.param:
        return f"The request cannot be served as it is: {error.param[:MAX_PARAM_CHARS]}."
    return "The request cannot be served as it is."
