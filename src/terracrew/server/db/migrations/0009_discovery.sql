-- Rules that make modules from the folders of a repository, what each rule has found, and modules whose folder is gone.
-- older servers: continue
ALTER TABLE modules ADD COLUMN source_gone text NOT NULL DEFAULT '';
ALTER TABLE pull_requests ADD COLUMN pending text NOT NULL DEFAULT '[]';

CREATE TABLE discovery_rules (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    group_id text NOT NULL REFERENCES groups (id) ON DELETE CASCADE,
    name text NOT NULL,
    url text NOT NULL,
    branch text NOT NULL,
    engine text NOT NULL CHECK (engine IN ('tofu', 'terraform', 'pulumi')),
    include text NOT NULL,
    exclude text NOT NULL,
    module_path text NOT NULL,
    engine_version text NOT NULL,
    tags text NOT NULL,
    credential text NOT NULL,
    needs_approval boolean NOT NULL,
    plans_new boolean NOT NULL,
    is_enabled boolean NOT NULL,
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    changed_at double precision NOT NULL,
    -- It increases with every change that a person makes.
    revision bigint NOT NULL,
    -- The repository that it reads, once that is known, and the newest commit of its default branch when it was looked at last.
    repository_id text,
    seen_default text NOT NULL DEFAULT '',
    -- The commit whose folders were found last.
    commit_id text NOT NULL DEFAULT '',
    looked_at double precision,
    problem text NOT NULL DEFAULT '',
    due_at double precision,
    failures bigint NOT NULL DEFAULT 0,
    lease_holder text,
    lease_until double precision,
    CONSTRAINT discovery_rules_name UNIQUE (group_id, name),
    CHECK ((lease_holder IS NULL) = (lease_until IS NULL))
);
CREATE INDEX discovery_rules_of_organization ON discovery_rules (organization_id, id);
CREATE INDEX discovery_rules_of_repository ON discovery_rules (repository_id) WHERE repository_id IS NOT NULL;

-- The folders that a rule has found, and what became of each.
CREATE TABLE discovery_folders (
    rule_id text NOT NULL REFERENCES discovery_rules (id) ON DELETE CASCADE,
    folder text NOT NULL,
    path text NOT NULL,
    state text NOT NULL CHECK (state IN ('new', 'made', 'gone', 'kept', 'deleted', 'conflict', 'invalid')),
    module_id text,
    reason text NOT NULL DEFAULT '',
    changed_at double precision NOT NULL,
    PRIMARY KEY (rule_id, folder)
);
CREATE INDEX discovery_folders_of_module ON discovery_folders (module_id) WHERE module_id IS NOT NULL;
