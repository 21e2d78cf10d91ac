-- The diff of the last plan of each job. Small ones are in their row, the others in an object; both are encrypted.
CREATE TABLE plan_diffs (
    job_id text PRIMARY KEY REFERENCES jobs (id),
    attempt bigint NOT NULL,
    module_id text NOT NULL,
    sha256 text NOT NULL,
    content bytea,
    object text,
    created_at double precision NOT NULL,
    CHECK ((content IS NULL) <> (object IS NULL))
);
