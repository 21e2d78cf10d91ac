-- A group can be planned as a whole, too. SQLite cannot change a CHECK, so both tables are made anew.
CREATE TABLE new_group_runs (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    group_id text NOT NULL,
    path text NOT NULL,
    type text NOT NULL CHECK (type IN ('PLAN', 'APPLY', 'DESTROY')),
    status text NOT NULL CHECK (status IN ('RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
    started_by text NOT NULL,
    started_by_name text NOT NULL,
    created_at double precision NOT NULL,
    finished_at double precision,
    CHECK ((finished_at IS NULL) = (status = 'RUNNING'))
);
INSERT INTO new_group_runs (id, organization_id, group_id, path, type, status, started_by, started_by_name, created_at, finished_at)
    SELECT id, organization_id, group_id, path, type, status, started_by, started_by_name, created_at, finished_at FROM group_runs;
CREATE TABLE new_group_run_modules (
    run_id text NOT NULL REFERENCES new_group_runs (id),
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
INSERT INTO new_group_run_modules (run_id, module_id, path, position, waits_for, status, job_id, message)
    SELECT run_id, module_id, path, position, waits_for, status, job_id, message FROM group_run_modules;
DROP TABLE group_run_modules;
DROP TABLE group_runs;
ALTER TABLE new_group_runs RENAME TO group_runs;
ALTER TABLE new_group_run_modules RENAME TO group_run_modules;
CREATE UNIQUE INDEX group_runs_running ON group_runs (group_id) WHERE status = 'RUNNING';
CREATE INDEX group_runs_of_group ON group_runs (group_id, id);
CREATE INDEX group_run_modules_open ON group_run_modules (module_id) WHERE status IN ('WAITING', 'RUNNING');
CREATE INDEX group_runs_open ON group_runs (organization_id, id) WHERE status = 'RUNNING';
