-- Modules that are applied by themselves when an output that they use has changed.
ALTER TABLE modules ADD COLUMN triggers text NOT NULL DEFAULT 'manual' CHECK (triggers IN ('auto', 'manual'));
-- One row for each module that has to be applied because of that. It is written in one transaction with the outputs, and deleted in
-- one transaction with the creation of the job, so that neither is lost or repeated if a server ends in between.
CREATE TABLE triggered_modules (
    module_id text PRIMARY KEY,
    cause_job_id text NOT NULL,
    changed_at double precision NOT NULL
);
-- The job of another module whose change of an output caused a job.
ALTER TABLE jobs ADD COLUMN cause_job_id text;
