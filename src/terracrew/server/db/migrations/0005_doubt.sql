-- Attempts that are lost after their `begin`, modules in doubt because of them, and plans that wait for a person.

-- When it was declared lost; cleared when it is heard again. The lease runs from here.
ALTER TABLE attempts ADD COLUMN lost_at double precision;
-- It was fenced after its `begin`, and nobody has said that it is gone: nothing on its module mutates before a person has looked.
ALTER TABLE attempts ADD COLUMN is_in_doubt boolean NOT NULL DEFAULT false;
-- Of the engine, the inputs and the environment that it was granted with: whether they changed since is asked before a plan is resumed.
ALTER TABLE attempts ADD COLUMN inputs_sha256 text NOT NULL DEFAULT '';
CREATE INDEX attempts_in_doubt ON attempts (job_id) WHERE is_in_doubt;
CREATE INDEX attempts_lost ON attempts (job_id) WHERE lost_at IS NOT NULL AND ended_at IS NULL;

ALTER TABLE modules ADD COLUMN needs_approval boolean NOT NULL DEFAULT false;
ALTER TABLE modules ADD COLUMN approval_seconds bigint NOT NULL DEFAULT 604800;
ALTER TABLE jobs ADD COLUMN needs_approval boolean NOT NULL DEFAULT false;
ALTER TABLE jobs ADD COLUMN approval_seconds bigint NOT NULL DEFAULT 604800;
-- The attempt whose kept plan the job waits for a decision about, or goes on with.
ALTER TABLE jobs ADD COLUMN plan_attempt bigint;
-- The whole queue is looked through now and then, by id, without reading the jobs themselves.
CREATE INDEX jobs_queued ON jobs (id, attempt) WHERE status = 'QUEUED';

-- A plan and the workspace that it was made in, encrypted under its attempt's key. It is decided about once, and applied at most once.
CREATE TABLE plans (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    state_version bigint NOT NULL,
    inputs_sha256 text NOT NULL,
    path text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    made_at double precision NOT NULL,
    decide_by double precision NOT NULL,
    decision text CHECK (decision IN ('approved', 'declined')),
    decided_by text NOT NULL DEFAULT '',
    decided_at double precision,
    reason text NOT NULL DEFAULT '',
    applied_by bigint,
    is_kept boolean NOT NULL DEFAULT true,
    PRIMARY KEY (job_id, attempt),
    CHECK ((decision IS NULL) = (decided_at IS NULL)),
    CHECK (applied_by IS NULL OR decision = 'approved')
);
CREATE INDEX plans_undecided ON plans (decide_by) WHERE decision IS NULL;
