-- The running jobs in the order of the tree: those below a group are a range of this index, however many others run. The claim
-- writes the path, which never changes while the module exists. The collation makes the order the same in every database.
ALTER TABLE jobs ADD COLUMN module_path text COLLATE "C";
UPDATE jobs SET module_path = (SELECT path FROM modules WHERE modules.id = jobs.module_id)
    WHERE status IN ('CLAIMED', 'PROCESSING');
DROP INDEX jobs_running;
-- It contains the status, because SQLite otherwise reads the row of each job to check it.
CREATE INDEX jobs_running ON jobs (organization_id, module_path, status) WHERE status IN ('CLAIMED', 'PROCESSING');
