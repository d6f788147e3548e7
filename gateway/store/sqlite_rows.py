"""What is done with rows in one SQLite connection: put, read, deleted, walked along their chains."""

import logging
import sqlite3

from gateway.store import sqlite_sql as sql
from gateway.store.encoding import Damaged, Packed, pack, unpack_link, unpack_row
from gateway.store.protocol import MAX_CHAIN, Link, Row, StoreError

log = logging.getLogger(__name__)


def put(db: sqlite3.Connection, row: Row, now: int) -> None:
    """Keep a row."""
    packed = pack(row)
    values = (row.id, row.owner, row.previous_id, row.created_at, now, *packed)
    if not db.execute(sql.PUT, values).rowcount:
        raise StoreError(f"The response {row.id} is another key's.")


def get(db: sqlite3.Connection, id: str, owner: str) -> Row | None:
    """One row, or None when it is unknown, somebody else's, or damaged."""
    found = db.execute(sql.GET, (id, owner)).fetchone()
    if found is None:
        return None
    previous_id, created_at, *parts = found
    try:
        return unpack_row(id, owner, previous_id, created_at, Packed(*parts))
    except Damaged as error:
        log.error("a stored response is damaged: %s", error)
        return None


def delete(db: sqlite3.Connection, id: str, owner: str) -> bool:
    """Forget a row; whoever remembers what continues it sees by the mark that something has gone."""
    if not db.execute(sql.DELETE, (id, owner)).rowcount:
        return False
    db.execute(sql.DELETED)
    return True


def chain(db: sqlite3.Connection, id: str, owner: str) -> tuple[list[Link], int]:
    """The links, and when the last of them was used."""
    rows = db.execute(sql.CHAIN, {"id": id, "owner": owner, "max": MAX_CHAIN}).fetchall()
    try:
        links = [unpack_link(id, previous_id, items) for id, previous_id, items, _ in rows]
    except Damaged as error:
        log.error("a stored response is damaged: %s", error)
        return [], 0
    return links, rows[-1][3] if rows else 0


def whole(
    db: sqlite3.Connection, id: str, owner: str, since: bytes | None
) -> tuple[bytes, int] | None:
    """The mark of the latest deletion, and when the row was used; None when its chain is not whole."""
    wanted = {"id": id, "owner": owner, "max": MAX_CHAIN}
    latest = db.execute(sql.LATEST, wanted).fetchone()
    if latest is None:
        return None
    used_at, is_there, mark = latest
    # The mark was read first: what is deleted meanwhile is seen the next time at the latest.
    if not is_there or (mark != since and db.execute(sql.WHOLE, wanted).fetchone() is None):
        return None
    return mark, used_at
