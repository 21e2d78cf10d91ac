-- States that command lines have announced and are about to upload.
-- older servers: continue
CREATE TABLE state_uploads (
    id text PRIMARY KEY,
    module_id text NOT NULL REFERENCES modules (id) ON DELETE CASCADE,
    created_by text NOT NULL,
    credential_id text NOT NULL,
    created_at double precision NOT NULL,
    serial bigint NOT NULL,
    lineage text NOT NULL,
    md5 text NOT NULL,
    is_forced boolean NOT NULL,
    state_id text
);
CREATE INDEX state_uploads_of_module ON state_uploads (module_id, created_at);
