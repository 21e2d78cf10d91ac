-- Jobs of the fleet: they deploy, update and remove cloud-hosted runners and test cloud identities (ADR 0077).
CREATE TABLE fleet_jobs (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    group_id text NOT NULL,
    number bigint NOT NULL,
    type text NOT NULL CHECK (type IN ('DEPLOY_WORKER', 'UPDATE_WORKER', 'DESTROY_WORKER', 'CONNECTION_TEST')),
    status text NOT NULL CHECK (status IN ('QUEUED', 'CLAIMED', 'PROCESSING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
    attempt bigint NOT NULL CHECK (attempt > 0),
    target_id text NOT NULL,
    target_name text NOT NULL,
    runner_id text,
    identity_id text NOT NULL,
    spec text NOT NULL,
    server_id text,
    lease_until double precision,
    due_at double precision NOT NULL,
    losses text NOT NULL,
    error text NOT NULL,
    canceled_at double precision,
    canceled_by text NOT NULL,
    is_unwinding boolean NOT NULL,
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    claimed_at double precision,
    started_at double precision,
    finished_at double precision,
    UNIQUE (organization_id, number),
    CHECK ((status IN ('CLAIMED', 'PROCESSING')) = (server_id IS NOT NULL)),
    CHECK ((server_id IS NULL) = (lease_until IS NULL)),
    CHECK ((status IN ('SUCCEEDED', 'FAILED', 'CANCELED')) = (finished_at IS NOT NULL)),
    CHECK (status <> 'PROCESSING' OR started_at IS NOT NULL)
);
CREATE UNIQUE INDEX fleet_jobs_active ON fleet_jobs (target_id) WHERE status IN ('CLAIMED', 'PROCESSING');
CREATE INDEX fleet_jobs_open ON fleet_jobs (id) WHERE finished_at IS NULL;
CREATE INDEX fleet_jobs_of_target ON fleet_jobs (target_id, id);
CREATE INDEX fleet_jobs_of_organization ON fleet_jobs (organization_id, id);
CREATE INDEX fleet_jobs_ended ON fleet_jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE TABLE fleet_steps (
    job_id text NOT NULL REFERENCES fleet_jobs (id) ON DELETE CASCADE,
    attempt bigint NOT NULL,
    name text NOT NULL,
    position bigint NOT NULL,
    words text NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'running', 'done', 'failed')),
    reference text NOT NULL,
    detail text NOT NULL,
    remedy text NOT NULL,
    started_at double precision,
    finished_at double precision,
    PRIMARY KEY (job_id, attempt, name),
    CHECK ((status = 'pending') = (started_at IS NULL)),
    CHECK ((status IN ('done', 'failed')) = (finished_at IS NOT NULL))
);
CREATE TABLE fleet_log (
    job_id text NOT NULL REFERENCES fleet_jobs (id) ON DELETE CASCADE,
    attempt bigint NOT NULL,
    number bigint NOT NULL,
    at double precision NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (job_id, attempt, number)
);
