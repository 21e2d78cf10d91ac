-- Which modules have fetched which published versions, in jobs with their own tokens.
-- older servers: continue
CREATE TABLE published_uses (
    version_id text NOT NULL REFERENCES published_versions (id) ON DELETE CASCADE,
    module_id text NOT NULL REFERENCES modules (id) ON DELETE CASCADE,
    -- The last job that has fetched it.
    job_id text NOT NULL,
    first_at double precision NOT NULL,
    fetched_at double precision NOT NULL,
    PRIMARY KEY (version_id, module_id)
);
CREATE INDEX published_uses_of_module ON published_uses (module_id);
