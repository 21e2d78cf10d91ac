-- What has happened, as sums by group and by hour or day. The end of a job only appends entries; a loop adds them to the sums and
-- deletes them, so that jobs which end at the same time never wait for each other. Figures begin when this version starts.
-- older servers: continue
CREATE TABLE figure_entries (
    job_id text NOT NULL,
    attempt bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('QUEUED', 'CLAIMED', 'PROCESSING', 'AWAITING_APPROVAL', 'SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED')),
    organization_id text NOT NULL,
    group_id text NOT NULL,
    at double precision NOT NULL,
    is_end boolean NOT NULL,
    failure_class text NOT NULL DEFAULT '',
    runner_group_id text NOT NULL DEFAULT '',
    busy_since double precision,
    wait_seconds double precision,
    -- A job leaves a status of an attempt once, so that nothing is counted twice.
    PRIMARY KEY (job_id, attempt, status)
);
CREATE INDEX figure_entries_of_organization ON figure_entries (organization_id);
CREATE TABLE figures (
    -- The id of a group, for everything in it and below it; empty for what the shared runners have.
    group_id text NOT NULL,
    period_seconds bigint NOT NULL CHECK (period_seconds IN (3600, 86400)),
    starts_at bigint NOT NULL,
    kind text NOT NULL,
    amount double precision NOT NULL,
    PRIMARY KEY (group_id, period_seconds, starts_at, kind)
);
CREATE INDEX figures_by_time ON figures (period_seconds, starts_at);
-- When the capacity of the runners was added to the sums for the last time.
CREATE TABLE figure_samples (
    id bigint PRIMARY KEY CHECK (id = 1),
    sampled_at double precision NOT NULL
);
