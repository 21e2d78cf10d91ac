-- What operators set for the processes of a runner (null, or nothing: the runner's own settings), and runners that were removed.

ALTER TABLE runners ADD COLUMN configuration text NOT NULL DEFAULT '{}';

-- Removed runners and their instances: what the jobs that they had still call them by, and what a process of one is told that still
-- comes with the right token.
CREATE TABLE removed (
    id text PRIMARY KEY,
    name text NOT NULL,
    worker_token_sha256 text,
    removed_at double precision NOT NULL
);
CREATE INDEX removed_worker_token ON removed (worker_token_sha256) WHERE worker_token_sha256 IS NOT NULL;
