-- Indexes for lists of the modules of a group, and for the jobs that a runner has.

-- With the status and the module, SQLite prefers it to the index of all jobs. It answers for every status of an open job, too, so that the
-- index by status is left with the jobs that have ended: a job enters it once.
DROP INDEX jobs_open;
CREATE INDEX jobs_open ON jobs (organization_id, id, status, module_id)
    WHERE status NOT IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED');
DROP INDEX jobs_by_status;
CREATE INDEX jobs_ended ON jobs (organization_id, status, id)
    WHERE status IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED');

CREATE INDEX modules_in_group ON modules (group_id, id);
CREATE INDEX jobs_of_runner ON jobs (runner_id) WHERE status IN ('CLAIMED', 'PROCESSING');
-- The status of a runner is known without reading its instances.
CREATE INDEX instances_status ON instances (runner_id, is_draining) WHERE is_connected;
