-- Objects that no row names any more, and when the row that named them was deleted. They are deleted some time later, so that a
-- backup that copies the database first and the objects after it still finds them.

CREATE TABLE object_deletions (
    name text PRIMARY KEY,
    requested_at double precision NOT NULL
);
CREATE INDEX object_deletions_by_time ON object_deletions (requested_at);
