"""The two that look at every turn, put beside the relay: the status page and the recorder."""

from urllib.parse import urlsplit

from aiohttp import web

from gateway.config import Config
from gateway.errors import RequestError
from gateway.server.activity import Activity
from gateway.server.keys import RELAY, TARGETS
from gateway.server.recording import HEADER, Recorder
from gateway.server.upstream_health import UpstreamHealth

ACTIVITY = web.AppKey("activity", Activity)
RECORDER: web.AppKey[Recorder | None] = web.AppKey("recorder")


def add_watchers(app: web.Application, config: Config, upstream_key: str) -> None:
    """Let them see the turns of this application's relay."""
    watchers = app[RELAY].watchers
    activity = app[ACTIVITY] = Activity(UpstreamHealth(app[TARGETS].is_answering))
    watchers.add(activity.watch)
    app[RECORDER] = None
    if config.record.dir:
        password = urlsplit(config.upstream.url).password or ""
        recorder = app[RECORDER] = Recorder(config.record, (upstream_key, password))
        watchers.add(recorder.watch)


async def close_watchers(app: web.Application) -> None:
    """At the end, when no turn runs any more."""
    await app[ACTIVITY].health.close()
    recorder = app[RECORDER]
    if recorder is not None:
        await recorder.close()


def asks_to_be_recorded(request: web.Request, may_record: bool) -> bool:
    """Whether this request wants its turns recorded.

    Raises:
        RequestError: it wants what it may not have, or what nobody has switched on.
    """
    if request.headers.get(HEADER, "").strip() in ("", "0"):
        return False
    if request.app[RECORDER] is None:
        raise RequestError(
            f"{HEADER}: recordings are off. Set [record] dir, or serve --record DIR."
        )
    if not may_record:
        raise RequestError(
            f"{HEADER}: this key may not record. Set record = true for it in the keys file.",
            status=403,
        )
    return True
