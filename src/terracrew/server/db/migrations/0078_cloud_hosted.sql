-- What was deployed for each cloud-hosted runner, and the instances that the cloud was asked to start for it.
CREATE TABLE cloud_deployments (
    runner_id text PRIMARY KEY REFERENCES runners (id) ON DELETE CASCADE,
    identity_id text NOT NULL,
    settings text NOT NULL,
    facts text NOT NULL DEFAULT '{}',
    status text NOT NULL CHECK (status IN ('new', 'deployed', 'failed', 'removing')),
    epoch bigint NOT NULL DEFAULT 0,
    refusal_code text NOT NULL DEFAULT '',
    refusal_words text NOT NULL DEFAULT '',
    refusals bigint NOT NULL DEFAULT 0,
    refused_at double precision,
    retry_at double precision,
    start_seconds text NOT NULL DEFAULT '[]',
    woken_ahead_at double precision,
    CHECK ((refused_at IS NULL) = (refusals = 0)),
    CHECK (retry_at IS NULL OR refused_at IS NOT NULL)
);
CREATE INDEX cloud_deployments_of_identity ON cloud_deployments (identity_id);
CREATE INDEX cloud_deployments_retry ON cloud_deployments (retry_at) WHERE retry_at IS NOT NULL;
CREATE TABLE cloud_instances (
    id text PRIMARY KEY,
    runner_id text NOT NULL REFERENCES cloud_deployments (runner_id) ON DELETE CASCADE,
    name text NOT NULL,
    epoch bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('wanted', 'starting', 'running', 'leaving', 'ended')),
    reference text NOT NULL DEFAULT '',
    words text NOT NULL DEFAULT '',
    wanted_at double precision NOT NULL,
    asked_at double precision,
    started_at double precision,
    hello_at double precision,
    watched_at double precision,
    ended_at double precision,
    end_reason text NOT NULL DEFAULT '',
    CONSTRAINT cloud_instances_name UNIQUE (runner_id, name),
    CHECK ((ended_at IS NULL) = (status <> 'ended'))
);
CREATE INDEX cloud_instances_live ON cloud_instances (runner_id, id) WHERE status <> 'ended';
CREATE INDEX cloud_instances_ended ON cloud_instances (runner_id, ended_at) WHERE status = 'ended';
-- Whether a runner without an instance counts as available, because the cloud starts one as soon as a job needs it.
ALTER TABLE runners ADD COLUMN can_wake boolean NOT NULL DEFAULT false CHECK (NOT can_wake OR type = 'cloud-hosted');
CREATE INDEX runners_can_wake ON runners (id) WHERE can_wake;
-- Whether the server has agreed that the process of an instance ends. It drains until then.
ALTER TABLE instances ADD COLUMN is_leaving boolean NOT NULL DEFAULT false CHECK (NOT is_leaving OR is_draining);
