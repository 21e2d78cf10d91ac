-- The JSON of the last plan of each job whose plan is shown by a command line. Small ones are in their row, the others in an object;
-- both are encrypted.
-- older servers: continue
ALTER TABLE jobs ADD COLUMN needs_plan_json boolean NOT NULL DEFAULT false;

CREATE TABLE plan_json (
    job_id text PRIMARY KEY REFERENCES jobs (id),
    attempt bigint NOT NULL,
    module_id text NOT NULL,
    sha256 text NOT NULL,
    content bytea,
    object text,
    created_at double precision NOT NULL,
    CHECK ((content IS NULL) <> (object IS NULL))
);
