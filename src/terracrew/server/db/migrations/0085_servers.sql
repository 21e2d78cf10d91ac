-- Which servers use the database, so that a newer one does not change tables under an older one (ADR 0082).
-- `newest_known` is the newest migration that a server knows. `announced` is the migration that a server waits to apply, or 0: servers
-- that do not know it end first.
CREATE TABLE servers (
    id text PRIMARY KEY,
    version text NOT NULL,
    newest_known bigint NOT NULL,
    announced bigint NOT NULL,
    expires_at double precision NOT NULL
);
-- Whether servers that do not know a migration can go on after it, and the version of Terracrew that applied it.
ALTER TABLE migrations ADD COLUMN lets_older_continue boolean NOT NULL DEFAULT false;
ALTER TABLE migrations ADD COLUMN applied_by text NOT NULL DEFAULT '';
