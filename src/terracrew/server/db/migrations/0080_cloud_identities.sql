-- Ways into cloud accounts in which runners are started (ADR 0077). No credential of a cloud is stored: `external_id` and `subject` are
-- names that the account's own policies compare. Both are random and made here, so no two identities ever have the same.
CREATE TABLE cloud_identities (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    group_id text NOT NULL REFERENCES groups (id),
    name text NOT NULL,
    description text NOT NULL DEFAULT '',
    kind text NOT NULL CHECK (kind IN ('aws', 'kubernetes')),
    settings text NOT NULL,
    external_id text NOT NULL,
    subject text NOT NULL,
    audience text NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    -- What was found in the account when somebody last looked.
    found text,
    found_at double precision,
    CONSTRAINT cloud_identities_name UNIQUE (group_id, name),
    CONSTRAINT cloud_identities_external_id UNIQUE (external_id),
    CONSTRAINT cloud_identities_subject UNIQUE (subject),
    CHECK ((found IS NULL) = (found_at IS NULL))
);
CREATE INDEX cloud_identities_of_organization ON cloud_identities (organization_id, id);
