-- Runs of whole groups, and the modules of each of them.
ALTER TABLE jobs ADD COLUMN group_run_id text;
CREATE TABLE group_runs (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    group_id text NOT NULL,
    path text NOT NULL,
    type text NOT NULL CHECK (type IN ('APPLY', 'DESTROY')),
    status text NOT NULL CHECK (status IN ('RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
    started_by text NOT NULL,
    started_by_name text NOT NULL,
    created_at double precision NOT NULL,
    finished_at double precision,
    CHECK ((finished_at IS NULL) = (status = 'RUNNING'))
);
CREATE UNIQUE INDEX group_runs_running ON group_runs (group_id) WHERE status = 'RUNNING';
CREATE INDEX group_runs_of_group ON group_runs (group_id, id);
CREATE TABLE group_run_modules (
    run_id text NOT NULL REFERENCES group_runs (id),
    module_id text NOT NULL,
    path text NOT NULL,
    position bigint NOT NULL,
    waits_for text NOT NULL,
    status text NOT NULL CHECK (status IN ('WAITING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'SKIPPED', 'CANCELED')),
    job_id text,
    message text NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, module_id),
    CHECK (status <> 'RUNNING' OR job_id IS NOT NULL)
);
CREATE INDEX group_run_modules_open ON group_run_modules (module_id) WHERE status IN ('WAITING', 'RUNNING');
CREATE INDEX group_runs_open ON group_runs (organization_id, id) WHERE status = 'RUNNING';
