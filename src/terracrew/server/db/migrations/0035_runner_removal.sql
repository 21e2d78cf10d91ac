-- Since when a runner is being removed: it drains, and its row is deleted after its last job.
ALTER TABLE runners ADD COLUMN removing_since double precision CHECK (removing_since IS NULL OR is_draining);
CREATE INDEX runners_removing ON runners (removing_since) WHERE removing_since IS NOT NULL;
-- Whether the server's configuration declares a shared runner: then only the configuration changes and removes it.
ALTER TABLE runners ADD COLUMN is_declared boolean NOT NULL DEFAULT false CHECK (NOT is_declared OR organization_id IS NULL);
