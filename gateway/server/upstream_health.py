"""How the model server is: what turns have met, and, while somebody looks, whether it answers again."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from gateway.wire.json import JSON

# While the page is open a server that is away is asked again so often.
LOOK_SECONDS = 5.0


class UpstreamHealth:
    """Whether the model server answers.

    Args:
        ask: whether it answers now; never raises.
    """

    def __init__(self, ask: Callable[[], Awaitable[bool]]) -> None:
        self._ask = ask
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = -LOOK_SECONDS
        # None: nobody has asked yet.
        self.is_answering: bool | None = None
        self.since = time.time()
        self.last_error: JSON | None = None

    def answered(self) -> None:
        """It has answered."""
        self._is(True)

    def failed(self, error: JSON) -> None:
        """A turn has ended with its error."""
        self.last_error = {"at": time.time(), "words": error["words"], "status": error["status"]}
        if error["away"]:
            self._is(False)

    def look(self) -> None:
        """Ask in the background, unless it is known to be there or was just asked."""
        now = time.monotonic()
        is_asking = self._looking is not None and not self._looking.done()
        if self.is_answering or is_asking or now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        self._looking = asyncio.create_task(self._look())

    async def close(self) -> None:
        """Stop asking."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})

    def shown(self) -> JSON:
        """What the page is told."""
        return {
            "reachable": self.is_answering,
            "since": self.since,
            "last_error": self.last_error,
        }

    async def _look(self) -> None:
        self._is(await self._ask())

    def _is(self, is_answering: bool) -> None:
        if self.is_answering is not is_answering:
            self.is_answering = is_answering
            self.since = time.time()
