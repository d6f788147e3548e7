"""What the databases look like: a table of steps for each, from the first version to this one.

A database has as many steps behind it as its version says. A step is never changed once it has
been released; what is new is a new step at the end.
"""

from typing import Final

from gateway.store.protocol import StoreError

Steps = tuple[tuple[str, ...], ...]

# Blobs stand last, so that what is looked at while walking a chain lies in front of them.
SQLITE: Final[Steps] = (
    (
        """CREATE TABLE responses (
            id TEXT NOT NULL PRIMARY KEY,
            owner TEXT NOT NULL,
            previous_id TEXT,
            created_at INTEGER NOT NULL,
            used_at INTEGER NOT NULL,
            items BLOB NOT NULL,
            response BLOB NOT NULL
        )""",
        "CREATE INDEX responses_by_parent ON responses (previous_id) WHERE previous_id IS NOT NULL",
        "CREATE INDEX responses_by_use ON responses (used_at)",
        "CREATE TABLE facts (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL)",
    ),
)

# Names with a prefix: the database may be shared. "C": ids are compared, never sorted for people.
POSTGRES: Final[Steps] = (
    (
        """CREATE TABLE gateway_responses (
            id text COLLATE "C" PRIMARY KEY,
            owner text COLLATE "C" NOT NULL,
            previous_id text COLLATE "C",
            created_at bigint NOT NULL,
            used_at bigint NOT NULL,
            size bigint NOT NULL,
            items bytea NOT NULL,
            response bytea NOT NULL
        )""",
        # They are compressed already.
        "ALTER TABLE gateway_responses ALTER items SET STORAGE EXTERNAL",
        "ALTER TABLE gateway_responses ALTER response SET STORAGE EXTERNAL",
        "CREATE INDEX gateway_responses_by_parent ON gateway_responses (previous_id)"
        " WHERE previous_id IS NOT NULL",
        "CREATE INDEX gateway_responses_by_use ON gateway_responses (used_at)",
    ),
)


def steps_left(found: int, steps: Steps, where: str) -> Steps:
    """The steps from a version to the newest.

    Args:
        found: the version of the database.
        steps: all steps of its kind.
        where: names the database.

    Raises:
        StoreError: the database is newer than this gateway.
    """
    if found > len(steps):
        raise StoreError(
            f"{where} was written by a newer responses-gateway (schema {found}, this one knows "
            f"{len(steps)}): upgrade the gateway, or name another --store."
        )
    return steps[found:]
