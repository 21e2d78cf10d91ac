-- Modules that groups publish for others, and their versions.
-- older servers: continue
CREATE TABLE published_modules (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    group_id text NOT NULL REFERENCES groups (id),
    name text NOT NULL,
    system text NOT NULL,
    description text NOT NULL,
    readers text NOT NULL CHECK (readers IN ('group', 'organization')),
    -- The repository whose tags become versions; empty if versions are uploaded only.
    url text NOT NULL,
    folder text NOT NULL,
    tag_prefix text NOT NULL,
    -- The highest version that is neither withdrawn nor a pre-release; empty if there is none.
    latest text NOT NULL DEFAULT '',
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    changed_at double precision NOT NULL,
    -- It increases with every change that a person makes.
    revision bigint NOT NULL,
    looked_at double precision,
    problem text NOT NULL DEFAULT '',
    -- Tags that did not become versions, with the reasons, as JSON.
    refused_tags text NOT NULL DEFAULT '[]',
    due_at double precision,
    failures bigint NOT NULL DEFAULT 0,
    lease_holder text,
    lease_until double precision,
    CONSTRAINT published_modules_name UNIQUE (group_id, name, system),
    CHECK ((lease_holder IS NULL) = (lease_until IS NULL))
);
CREATE INDEX published_modules_of_organization ON published_modules (organization_id, id);
CREATE INDEX published_modules_due ON published_modules (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE published_versions (
    id text PRIMARY KEY,
    published_id text NOT NULL REFERENCES published_modules (id) ON DELETE CASCADE,
    version text NOT NULL,
    archive_id text NOT NULL REFERENCES archives (id),
    sha256 text NOT NULL,
    size bigint NOT NULL,
    -- The tag and the commit that it was made of; empty if it was uploaded.
    tag text NOT NULL,
    commit_id text NOT NULL,
    -- The commit that the tag names now, if somebody has moved it.
    moved_to text NOT NULL DEFAULT '',
    -- What its files say about inputs, outputs and examples, as JSON.
    documentation text NOT NULL,
    withdrawn_at double precision,
    withdrawn_reason text NOT NULL DEFAULT '',
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    CONSTRAINT published_versions_version UNIQUE (published_id, version)
);
CREATE INDEX published_versions_of_archive ON published_versions (archive_id);
