-- What an executor is started with, where only its ticket can be passed on. The row stays as long as its attempt, because it
-- says whether the start was ever fetched; the content is removed as soon as nobody needs it.
CREATE TABLE executor_starts (
    job_id text NOT NULL,
    attempt bigint NOT NULL,
    ticket_sha256 text,
    content bytea,
    claim_sha256 text,
    expires_at double precision NOT NULL,
    fetched_at double precision,
    revoked_at double precision,
    reported_at double precision,
    PRIMARY KEY (job_id, attempt),
    FOREIGN KEY (job_id, attempt) REFERENCES attempts (job_id, number) ON DELETE CASCADE,
    CONSTRAINT executor_starts_ticket UNIQUE (ticket_sha256),
    CONSTRAINT executor_starts_claim CHECK ((claim_sha256 IS NULL) = (fetched_at IS NULL)),
    CONSTRAINT executor_starts_revoked CHECK (revoked_at IS NULL OR content IS NULL)
);
CREATE INDEX executor_starts_expiry ON executor_starts (expires_at) WHERE content IS NOT NULL;
