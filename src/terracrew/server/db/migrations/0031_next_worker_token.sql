-- The token that a runner has made to follow its present one. Both are good until it is used.
ALTER TABLE runners ADD COLUMN next_worker_token_sha256 text;
CREATE INDEX runners_next_worker_token ON runners (next_worker_token_sha256) WHERE next_worker_token_sha256 IS NOT NULL;
