-- When the worker token of a runner ends, and whether the runner replaces it by itself. A shared runner's token has no end here.
ALTER TABLE runners ADD COLUMN worker_token_expires_at double precision;
ALTER TABLE runners ADD COLUMN is_worker_token_rotated boolean NOT NULL DEFAULT false;
-- The worker tokens that runners have replaced by themselves: their use is a sign of a copy.
CREATE TABLE ended_worker_tokens (
    sha256 text PRIMARY KEY,
    runner_id text NOT NULL REFERENCES runners (id) ON DELETE CASCADE,
    ended_at double precision NOT NULL
);
CREATE INDEX ended_worker_tokens_runner ON ended_worker_tokens (runner_id);
CREATE INDEX ended_worker_tokens_ended ON ended_worker_tokens (ended_at);
