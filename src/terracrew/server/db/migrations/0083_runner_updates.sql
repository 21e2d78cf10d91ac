-- How the process of an instance was installed, whether it updates itself, and how its trial ended (ADR 0080, ADR 0081).
ALTER TABLE instances ADD COLUMN installation text NOT NULL DEFAULT '{}';
ALTER TABLE instances ADD COLUMN is_self_updating boolean NOT NULL DEFAULT false;
ALTER TABLE instances ADD COLUMN is_on_trial boolean NOT NULL DEFAULT false;
-- NULL until a process that was started on trial has reported how it ended.
ALTER TABLE instances ADD COLUMN trial_passed boolean;
ALTER TABLE instances ADD COLUMN trial_words text NOT NULL DEFAULT '';
-- Why the instance was asked to end after its last job; empty if it was not.
ALTER TABLE instances ADD COLUMN retire_reason text NOT NULL DEFAULT '';
-- Updates that instances were asked for by a fleet job, and how far each is.
CREATE TABLE instance_updates (
    id text PRIMARY KEY,
    instance_id text NOT NULL REFERENCES instances (id) ON DELETE CASCADE,
    runner_id text NOT NULL REFERENCES runners (id) ON DELETE CASCADE,
    job_id text NOT NULL REFERENCES fleet_jobs (id) ON DELETE CASCADE,
    version text NOT NULL,
    status text NOT NULL CHECK (status IN ('asked', 'running', 'done', 'failed', 'withdrawn')),
    step text NOT NULL,
    words text NOT NULL,
    asked_at double precision NOT NULL,
    changed_at double precision NOT NULL,
    CONSTRAINT instance_updates_of_job UNIQUE (job_id, instance_id)
);
CREATE UNIQUE INDEX instance_updates_open ON instance_updates (instance_id) WHERE status IN ('asked', 'running');
CREATE INDEX instance_updates_of_instance ON instance_updates (instance_id);
CREATE INDEX instance_updates_of_runner ON instance_updates (runner_id);
