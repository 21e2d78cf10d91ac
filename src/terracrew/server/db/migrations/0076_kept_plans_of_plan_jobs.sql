-- A plan that a PLAN job has kept is applied by another job, which has a copy of its row with attempt 0 (ADR 0073).
-- The attempt that made the plan: its key and its runner are those of the plan, and the stored object is named after it.
ALTER TABLE plans ADD COLUMN made_job_id text NOT NULL DEFAULT '';
ALTER TABLE plans ADD COLUMN made_attempt bigint NOT NULL DEFAULT 0;
UPDATE plans SET made_job_id = job_id, made_attempt = attempt;
CREATE INDEX plans_made ON plans (made_job_id, made_attempt);
-- The job that applies the plan of a PLAN job; empty if there is none.
ALTER TABLE plans ADD COLUMN taken_by text NOT NULL DEFAULT '';
-- The PLAN job whose plan a job applies, and who queued that one.
ALTER TABLE jobs ADD COLUMN plan_job_id text;
ALTER TABLE jobs ADD COLUMN plan_queued_by text NOT NULL DEFAULT '';
