-- Plans that may have to expire, without those of jobs that have ended. The index of the queue has all that a sweep reads.

ALTER TABLE plans ADD COLUMN is_open boolean NOT NULL DEFAULT true;
UPDATE plans SET is_open = false WHERE decision IS NOT NULL OR EXISTS (
    SELECT 1 FROM jobs WHERE jobs.id = plans.job_id AND jobs.status IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED'));
CREATE INDEX plans_open ON plans (decide_by) WHERE is_open AND decision IS NULL;

DROP INDEX jobs_queued;
CREATE INDEX jobs_queued ON jobs (id, attempt, plan_attempt) WHERE status = 'QUEUED';
