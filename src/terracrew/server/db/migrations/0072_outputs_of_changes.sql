-- Finds the changes of a module that succeeded after a time: whether its outputs are still those of its last change.
CREATE INDEX jobs_changes_of_module ON jobs (module_id, finished_at) WHERE status = 'SUCCEEDED' AND type <> 'PLAN';
