-- The queued jobs of each module in the order in which they run. Every claim looks for the first one of its module.
CREATE INDEX jobs_queue_of_module ON jobs (module_id, priority DESC, number, id) WHERE status = 'QUEUED';
