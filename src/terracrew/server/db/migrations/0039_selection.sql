-- A claim looks for the groups that limit how many jobs run at once, and counts the jobs that run below them.
CREATE INDEX groups_capped ON groups (organization_id) WHERE max_running_jobs IS NOT NULL;
CREATE INDEX jobs_running ON jobs (organization_id, module_id) WHERE status IN ('CLAIMED', 'PROCESSING');
