-- Inputs at any place of the tree: one row for each version of each input. A module's jobs get those of the module, of its group
-- and of the groups above it; the nearest one of a name applies.
CREATE TABLE inputs (
    id text PRIMARY KEY,
    place_id text NOT NULL,
    target text NOT NULL CHECK (target IN ('variable', 'environment', 'file')),
    name text NOT NULL,
    version bigint NOT NULL CHECK (version > 0),
    kind text NOT NULL CHECK (kind IN ('literal', 'secret', 'output', 'definition')),
    sealed bytea,
    size bigint NOT NULL DEFAULT 0,
    is_current boolean NOT NULL DEFAULT true,
    set_by text NOT NULL,
    set_by_name text NOT NULL,
    set_at double precision NOT NULL,
    UNIQUE (place_id, target, name, version)
);
CREATE UNIQUE INDEX inputs_current ON inputs (place_id, target, name) WHERE is_current;
-- What a job was given for itself when it was created, and what each attempt was given, by name and origin and without values.
CREATE TABLE job_inputs (
    job_id text PRIMARY KEY REFERENCES jobs (id),
    sealed bytea NOT NULL
);
CREATE TABLE attempt_inputs (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    used text NOT NULL,
    PRIMARY KEY (job_id, attempt)
);
-- The inputs and the environment of modules become rows of `inputs` when the server starts, which alone has the key. The column is
-- renamed, so that a server of an earlier version fails instead of running jobs without inputs.
ALTER TABLE modules RENAME COLUMN sealed TO earlier_sealed;
DROP INDEX modules_unsealed;
CREATE INDEX modules_earlier_content ON modules (id)
    WHERE earlier_sealed IS NOT NULL OR plain_inputs <> '{}' OR plain_environment <> '{}';
