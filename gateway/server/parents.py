"""Parents of stored responses, kept ready for the turn that continues them: a turn costs its own items then.

A store gives a conversation as rows, to be decoded and lowered from the first item on; what is kept here has both
behind it already. It is taken once, by the turn that goes on from it, and only when the store says that the whole
chain is still there: a response that was deleted or has expired, by whichever process, is continued by nobody.
"""

from collections import OrderedDict

from msgspec import structs

from gateway.server.parent import Parent, not_found, parent_of
from gateway.store.protocol import Store

# Conversations that go on at the same time in one process; one of them has one latest response.
MAX_PARENTS = 256
# Their items as JSON together, some forty long sessions; in memory they are two to three times as large.
MAX_PARENT_BYTES = 32 * 1024 * 1024


class Parents:
    """What stored responses can be continued from; the least recently kept goes first.

    Args:
        store: has them all, and the last word.
        max_parents: how many are kept ready.
        max_bytes: of their items together.
    """

    def __init__(
        self, store: Store, max_parents: int = MAX_PARENTS, max_bytes: int = MAX_PARENT_BYTES
    ) -> None:
        self._store = store
        self._max_parents = max_parents
        self._max_bytes = max_bytes
        self._ready: OrderedDict[tuple[str, str], Parent] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._ready)

    async def find(self, id: str, owner: str) -> Parent:
        """The stored response that a request continues.

        Raises:
            RequestError: `previous_response_not_found`.
            StoreError: the store cannot be asked.
        """
        known = self._ready.get((owner, id))
        if known is not None:
            mark = await self._store.whole(id, owner, known.mark)
            # Taken by another turn meanwhile: this one is a fork, and reads its own.
            is_ours = self._ready.get((owner, id)) is known
            if is_ours:
                self.forget(id, owner)
            if mark is None:
                raise not_found(id)
            if is_ours:
                return structs.replace(known, mark=mark)
        return parent_of(id, await self._store.chain(id, owner))

    def keep(self, parent: Parent, owner: str) -> None:
        """Keep ready what has just been stored."""
        if parent.id is None or parent.size > self._max_bytes or not self._max_parents:
            return
        self.forget(parent.id, owner)
        self._ready[owner, parent.id] = parent
        self.bytes += parent.size
        while len(self._ready) > self._max_parents or self.bytes > self._max_bytes:
            _, oldest = self._ready.popitem(last=False)
            self.bytes -= oldest.size

    def forget(self, id: str, owner: str) -> None:
        """It is taken, or deleted."""
        known = self._ready.pop((owner, id), None)
        if known is not None:
            self.bytes -= known.size
