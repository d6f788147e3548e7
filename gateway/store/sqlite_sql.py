"""The statements that SQLite is given. A chain is one of them, whatever its length."""

from typing import Final

CHAIN: Final = """
WITH RECURSIVE line(id, previous_id, depth) AS (
    SELECT id, previous_id, 1 FROM responses WHERE id = :id AND owner = :owner
    UNION ALL
    SELECT r.id, r.previous_id, line.depth + 1
    FROM line CROSS JOIN responses AS r ON r.id = line.previous_id
    WHERE r.owner = :owner AND line.depth < :max
)
SELECT r.id, r.previous_id, r.items, r.used_at
FROM line CROSS JOIN responses AS r ON r.id = line.id
WHERE (SELECT previous_id FROM line ORDER BY depth DESC LIMIT 1) IS NULL
ORDER BY line.depth DESC
"""
# The last two rows only, and the mark of the latest deletion.
LATEST: Final = """
SELECT r.used_at, r.previous_id IS NULL OR p.id IS NOT NULL,
    coalesce((SELECT value FROM facts WHERE name = 'deleted'), x'')
FROM responses AS r LEFT JOIN responses AS p ON p.id = r.previous_id AND p.owner = r.owner
WHERE r.id = :id AND r.owner = :owner
"""
WHOLE: Final = """
WITH RECURSIVE line(previous_id, depth) AS (
    SELECT previous_id, 1 FROM responses WHERE id = :id AND owner = :owner
    UNION ALL
    SELECT r.previous_id, line.depth + 1
    FROM line CROSS JOIN responses AS r ON r.id = line.previous_id
    WHERE r.owner = :owner AND line.depth < :max
)
SELECT 1 FROM line WHERE previous_id IS NULL
"""
PUT: Final = """
INSERT INTO responses (id, owner, previous_id, created_at, used_at, items, response)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET
    previous_id = excluded.previous_id, created_at = excluded.created_at,
    used_at = excluded.used_at, items = excluded.items, response = excluded.response
WHERE owner = excluded.owner
"""
ENDS: Final = """
SELECT id FROM responses AS r
WHERE used_at < ? AND NOT EXISTS (SELECT 1 FROM responses AS c WHERE c.previous_id = r.id)
ORDER BY used_at LIMIT ?
"""
DROP: Final = """
DELETE FROM responses AS r
WHERE id = ? AND used_at < ?
    AND NOT EXISTS (SELECT 1 FROM responses AS c WHERE c.previous_id = r.id)
RETURNING previous_id, length(items) + length(response)
"""
CHECK: Final = """
INSERT INTO facts VALUES ('checked', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
DELETE: Final = "DELETE FROM responses WHERE id = ? AND owner = ?"
DELETED: Final = """
INSERT INTO facts VALUES ('deleted', randomblob(16))
ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
MARK: Final = "UPDATE responses SET used_at = max(used_at, ?) WHERE id = ?"
GET: Final = """
SELECT previous_id, created_at, items, response FROM responses WHERE id = ? AND owner = ?
"""
