-- The log of an attempt that has ended moves from its rows to the object store.

-- The part of a log that is in one object. `size` counts the text, `stored_bytes` the object; `blocks` is the index into it.
CREATE TABLE log_objects (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    first_line bigint NOT NULL,
    lines bigint NOT NULL,
    size bigint NOT NULL,
    stored_bytes bigint NOT NULL,
    object text NOT NULL,
    blocks bytea NOT NULL,
    created_at double precision NOT NULL,
    PRIMARY KEY (job_id, attempt, first)
);

-- Events up to this one are in objects. Chunks of them that are still there are not read any more, and are deleted.
ALTER TABLE attempts ADD COLUMN log_moved bigint NOT NULL DEFAULT 0;
-- Whether there may be chunks of this attempt. Every delivery sets it; moving the log clears it.
ALTER TABLE attempts ADD COLUMN has_log_chunks boolean NOT NULL DEFAULT true;
-- When retention removed the log up to `log_moved`, and after how many days it does so.
ALTER TABLE attempts ADD COLUMN log_removed_at double precision;
ALTER TABLE attempts ADD COLUMN log_removed_days double precision;
CREATE INDEX attempts_log_to_move ON attempts (ended_at) WHERE has_log_chunks AND ended_at IS NOT NULL;
