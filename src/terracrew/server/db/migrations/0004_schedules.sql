-- Schedules of groups and modules; plans that only refresh; and drift: what each module's last check found, what is muted, and the checks that are due.
-- older servers: continue
ALTER TABLE jobs ADD COLUMN is_refresh_only boolean NOT NULL DEFAULT false;

CREATE TABLE schedules (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    group_id text REFERENCES groups (id) ON DELETE CASCADE,
    module_id text REFERENCES modules (id) ON DELETE CASCADE,
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('PLAN', 'APPLY', 'DESTROY', 'DRIFT')),
    cron text NOT NULL,
    time_zone text NOT NULL,
    jitter_minutes bigint NOT NULL CHECK (jitter_minutes >= 0),
    late_minutes bigint NOT NULL CHECK (late_minutes >= 0),
    is_refresh_only boolean NOT NULL,
    is_enabled boolean NOT NULL,
    created_at double precision NOT NULL,
    -- As whom it starts jobs: who made it or changed it last.
    changed_by text NOT NULL,
    changed_by_name text NOT NULL,
    changed_at double precision NOT NULL,
    next_at double precision,
    -- The last start, or why nothing was started.
    last_at double precision,
    last_outcome text NOT NULL DEFAULT '',
    is_last_problem boolean NOT NULL DEFAULT false,
    last_job_id text,
    last_group_run_id text,
    CONSTRAINT schedules_name_in_group UNIQUE (group_id, name),
    CONSTRAINT schedules_name_in_module UNIQUE (module_id, name),
    CHECK ((group_id IS NULL) <> (module_id IS NULL)),
    CHECK (is_enabled OR next_at IS NULL)
);
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_of_organization ON schedules (organization_id, id);

-- The drift of each module that was checked or is to be checked: one row each.
CREATE TABLE drift_modules (
    module_id text PRIMARY KEY REFERENCES modules (id) ON DELETE CASCADE,
    organization_id text NOT NULL,
    -- The check that is due or runs; none if `due_at` is null.
    due_at double precision,
    give_up_at double precision,
    asked_by text NOT NULL DEFAULT '',
    asked_by_name text NOT NULL DEFAULT '',
    schedule_id text,
    schedule_name text NOT NULL DEFAULT '',
    is_refresh_only boolean NOT NULL DEFAULT true,
    -- The check begins after this job has ended.
    after_job_id text,
    -- The job of the check that runs.
    job_id text,
    -- What the last check that ended has found.
    checked_at double precision,
    checked_job_id text,
    drifted bigint NOT NULL DEFAULT 0,
    drifted_since double precision,
    -- Why the last check found nothing out, if it failed.
    problem text NOT NULL DEFAULT '',
    problem_at double precision,
    CHECK (job_id IS NULL OR due_at IS NOT NULL),
    CHECK ((due_at IS NULL) = (give_up_at IS NULL))
);
CREATE INDEX drift_modules_due ON drift_modules (due_at) WHERE due_at IS NOT NULL AND job_id IS NULL;
CREATE INDEX drift_modules_running ON drift_modules (organization_id) WHERE job_id IS NOT NULL;

-- The addresses that differ, as the last check of their module has found them.
CREATE TABLE drift_items (
    module_id text NOT NULL REFERENCES modules (id) ON DELETE CASCADE,
    address text NOT NULL,
    action text NOT NULL,
    digest text NOT NULL,
    since double precision NOT NULL,
    changed_at double precision NOT NULL,
    PRIMARY KEY (module_id, address)
);

-- The newest results of each module's checks, with what each of them told.
CREATE TABLE drift_results (
    job_id text PRIMARY KEY,
    module_id text NOT NULL REFERENCES modules (id) ON DELETE CASCADE,
    checked_at double precision NOT NULL,
    is_refresh_only boolean NOT NULL,
    problem text NOT NULL DEFAULT '',
    drifted bigint NOT NULL,
    muted bigint NOT NULL,
    differences text NOT NULL DEFAULT '[]'
);
CREATE INDEX drift_results_of_module ON drift_results (module_id, checked_at);

CREATE TABLE drift_mutes (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    module_id text NOT NULL REFERENCES modules (id) ON DELETE CASCADE,
    address text NOT NULL,
    reason text NOT NULL,
    until double precision NOT NULL,
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    CONSTRAINT drift_mutes_address UNIQUE (module_id, address)
);
CREATE INDEX drift_mutes_until ON drift_mutes (until);
