-- Credentials of runners that are valid for one job. `instance_id` is the instance that has claimed it: no other one may use the token then.
CREATE TABLE once_tokens (
    id text PRIMARY KEY,
    sha256 text NOT NULL,
    runner_id text NOT NULL REFERENCES runners (id) ON DELETE CASCADE,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    claimed_at double precision,
    job_id text,
    attempt bigint,
    instance_id text,
    revoked_at double precision,
    CONSTRAINT once_tokens_sha256 UNIQUE (sha256),
    CONSTRAINT once_tokens_attempt UNIQUE (job_id, attempt),
    CONSTRAINT once_tokens_claim CHECK (
        (claimed_at IS NULL) = (job_id IS NULL) AND (claimed_at IS NULL) = (attempt IS NULL) AND (claimed_at IS NULL) = (instance_id IS NULL))
);
CREATE INDEX once_tokens_runner ON once_tokens (runner_id);
CREATE INDEX once_tokens_expiry ON once_tokens (expires_at);
-- The token that a connected instance came with, so that its claim uses the token up; null: a credential for any number of jobs.
ALTER TABLE instances ADD COLUMN once_token_id text;
