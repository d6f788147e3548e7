"""Whether the store keeps what it is given. A store that is down costs the continuation, not the answer."""

import logging

from gateway.store.protocol import Row, Store, StoreError

log = logging.getLogger(__name__)


class StoreHealth:
    """Puts rows, and knows how the last write ended.

    Attributes:
        is_good: the last write has worked.
        failures: rows that could not be kept, since the start.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_good = True
        self.failures = 0

    async def keep(self, row: Row) -> bool:
        """Put a row; False when it is not kept, which has been logged and counted then."""
        try:
            await self._store.put(row)
        except Exception as error:  # whatever it was, the model's answer must still be delivered
            self.failures += 1
            self.is_good = False
            if isinstance(error, StoreError):
                log.error("response %s is not stored: %s", row.id, error.reason)
            else:
                log.exception("response %s is not stored", row.id)
            return False
        self.is_good = True
        return True

    async def is_ready(self) -> bool:
        """Whether a row would be kept now. After a failure that is tried: nobody else might."""
        if self.is_good:
            return True
        try:
            await self._store.check()
        except StoreError:
            return False
        log.info("the store works again")
        self.is_good = True
        return True
