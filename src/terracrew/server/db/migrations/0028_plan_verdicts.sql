-- Plans of PLAN jobs that policies have not looked at yet.
-- older servers: continue
ALTER TABLE plan_json ADD COLUMN awaits_policies boolean NOT NULL DEFAULT false;
CREATE INDEX plan_json_awaiting_policies ON plan_json (job_id) WHERE awaits_policies;
