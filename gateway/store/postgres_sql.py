"""The statements that PostgreSQL is given. A chain is one of them, whatever its length."""

from typing import Final

PUT: Final = """
INSERT INTO gateway_responses
    (id, owner, previous_id, created_at, used_at, items, response, size)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (id) DO UPDATE SET
    previous_id = excluded.previous_id, created_at = excluded.created_at,
    used_at = excluded.used_at, items = excluded.items, response = excluded.response,
    size = excluded.size
WHERE gateway_responses.owner = excluded.owner
RETURNING true
"""
GET: Final = """
SELECT previous_id, created_at, items, response FROM gateway_responses
WHERE id = $1 AND owner = $2
"""
CHAIN: Final = """
WITH RECURSIVE line(id, previous_id, depth) AS (
    SELECT id, previous_id, 1 FROM gateway_responses WHERE id = $1 AND owner = $2
    UNION ALL
    SELECT r.id, r.previous_id, line.depth + 1
    FROM line JOIN gateway_responses AS r ON r.id = line.previous_id
    WHERE r.owner = $2 AND line.depth < $3
)
SELECT r.id, r.previous_id, r.items, r.used_at
FROM line JOIN gateway_responses AS r ON r.id = line.id
WHERE (SELECT previous_id FROM line ORDER BY depth DESC LIMIT 1) IS NULL
ORDER BY line.depth DESC
"""
# The last two rows only, and the mark of the latest deletion.
LATEST: Final = """
SELECT r.used_at, r.previous_id IS NULL OR p.id IS NOT NULL AS is_there,
    coalesce((SELECT value FROM gateway_facts WHERE name = 'deleted'), ''::bytea) AS mark
FROM gateway_responses AS r
LEFT JOIN gateway_responses AS p ON p.id = r.previous_id AND p.owner = r.owner
WHERE r.id = $1 AND r.owner = $2
"""
WHOLE: Final = """
WITH RECURSIVE line(previous_id, depth) AS (
    SELECT previous_id, 1 FROM gateway_responses WHERE id = $1 AND owner = $2
    UNION ALL
    SELECT r.previous_id, line.depth + 1
    FROM line JOIN gateway_responses AS r ON r.id = line.previous_id
    WHERE r.owner = $2 AND line.depth < $3
)
SELECT true FROM line WHERE previous_id IS NULL
"""
ENDS: Final = """
SELECT id FROM gateway_responses AS r
WHERE used_at < $1
    AND NOT EXISTS (SELECT 1 FROM gateway_responses AS c WHERE c.previous_id = r.id)
ORDER BY used_at LIMIT $2
"""
DROP: Final = """
DELETE FROM gateway_responses AS r
WHERE id = $1 AND used_at < $2
    AND NOT EXISTS (SELECT 1 FROM gateway_responses AS c WHERE c.previous_id = r.id)
RETURNING previous_id, size
"""
SET: Final = """
INSERT INTO gateway_facts VALUES ($1, $2)
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
MARK: Final = """
UPDATE gateway_responses SET used_at = greatest(used_at, $2) WHERE id = $1
"""
SIZE: Final = """
SELECT coalesce(sum(size), 0)::bigint FROM gateway_responses
"""
DELETE: Final = """
WITH gone AS (DELETE FROM gateway_responses WHERE id = $1 AND owner = $2 RETURNING true),
marked AS (
    INSERT INTO gateway_facts SELECT 'deleted', $3::bytea FROM gone
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
)
SELECT true FROM gone
"""
FACTS: Final = (
    "CREATE TABLE IF NOT EXISTS gateway_facts (name text PRIMARY KEY, value bytea NOT NULL)"
)
FACT: Final = "SELECT value FROM gateway_facts WHERE name = $1"
ADD_FACT: Final = "INSERT INTO gateway_facts VALUES ($1, $2) ON CONFLICT DO NOTHING"
LOCK: Final = "SELECT pg_advisory_xact_lock($1)"
TRY_LOCK: Final = "SELECT pg_try_advisory_xact_lock($1)"
