-- Which jobs and modules use an archive: its id in their source, which starts with {"kind":"archive","archive_id":"arc_…".
CREATE INDEX jobs_archive ON jobs (substr(source, 33, 36));
CREATE INDEX modules_archive ON modules (substr(source, 33, 36));
CREATE INDEX audit_by_time ON audit (created_at);

-- When each chore of retention last came to its end, and what it removed (JSON: kind → count and bytes).
CREATE TABLE retention_runs (
    name text PRIMARY KEY,
    finished_at double precision NOT NULL,
    removed text NOT NULL
);
