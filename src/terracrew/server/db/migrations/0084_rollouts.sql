-- Roll-outs: runners of an organization get a release, one first and then in waves (ADR 0081).
CREATE TABLE rollouts (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    version text NOT NULL,
    status text NOT NULL CHECK (status IN ('rolling', 'paused', 'stopped', 'done')),
    stop_reason text NOT NULL,
    stop_runner_id text,
    is_automatic boolean NOT NULL,
    started_by text NOT NULL,
    started_by_name text NOT NULL,
    started_at double precision NOT NULL,
    ended_at double precision,
    CHECK ((status IN ('stopped', 'done')) = (ended_at IS NOT NULL)),
    CHECK ((status = 'stopped') = (stop_reason <> '')),
    CHECK (stop_runner_id IS NULL OR status = 'stopped')
);
CREATE UNIQUE INDEX rollouts_open ON rollouts (organization_id) WHERE ended_at IS NULL;
CREATE INDEX rollouts_of_organization ON rollouts (organization_id, id);
CREATE TABLE rollout_runners (
    rollout_id text NOT NULL REFERENCES rollouts (id) ON DELETE CASCADE,
    runner_id text NOT NULL,
    group_id text NOT NULL,
    path text NOT NULL,
    wave bigint CHECK (wave >= 0),
    from_version text NOT NULL,
    status text NOT NULL CHECK (status IN ('waiting', 'updating', 'updated', 'failed', 'by_hand', 'skipped')),
    job_id text,
    job_number bigint,
    words text NOT NULL,
    command text NOT NULL,
    changed_at double precision NOT NULL,
    PRIMARY KEY (rollout_id, runner_id),
    CHECK (wave IS NOT NULL OR status = 'by_hand'),
    CHECK (status NOT IN ('updating', 'updated') OR job_id IS NOT NULL),
    CHECK (status NOT IN ('waiting', 'by_hand', 'skipped') OR job_id IS NULL)
);
CREATE INDEX rollout_runners_of_runner ON rollout_runners (runner_id);
CREATE INDEX rollout_runners_updating ON rollout_runners (rollout_id) WHERE status = 'updating';
-- The version of Terracrew that the last deployment gave the instances of a cloud-hosted runner; empty if it is not known.
ALTER TABLE cloud_deployments ADD COLUMN version text NOT NULL DEFAULT '';
