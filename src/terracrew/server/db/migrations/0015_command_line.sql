-- The engines' own command line as a client: what it has uploaded, the runs that it has started, and what it was told meanwhile.
-- older servers: continue
ALTER TABLE modules ADD COLUMN labels text NOT NULL DEFAULT '[]';
ALTER TABLE modules ADD COLUMN command_line text NOT NULL DEFAULT 'runners';

CREATE TABLE configuration_versions (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    module_id text NOT NULL REFERENCES modules (id) ON DELETE CASCADE,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    is_speculative boolean NOT NULL,
    archive_id text,
    is_empty boolean NOT NULL DEFAULT false
);
CREATE INDEX configuration_versions_of_module ON configuration_versions (module_id);

CREATE TABLE terminal_runs (
    job_id text PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    configuration_version_id text NOT NULL,
    is_automatic boolean NOT NULL,
    is_saved boolean NOT NULL,
    is_plan_only boolean NOT NULL,
    message text NOT NULL DEFAULT '',
    applied_by text NOT NULL DEFAULT '',
    discarded_by text NOT NULL DEFAULT '',
    is_adopting boolean NOT NULL DEFAULT false
);

CREATE INDEX terminal_runs_adopting ON terminal_runs (job_id) WHERE is_adopting;

CREATE TABLE terminal_words (
    job_id text NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    attempt bigint NOT NULL,
    words text NOT NULL,
    is_closed boolean NOT NULL,
    mark_before bigint NOT NULL,
    PRIMARY KEY (job_id, attempt)
);
