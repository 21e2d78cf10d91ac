-- Pull requests that are planned: what was done about each, the modules that it touches, which users of a forge are users here, and the settings.
-- older servers: continue
ALTER TABLE groups ADD COLUMN pull_request_plans boolean;
ALTER TABLE groups ADD COLUMN pull_request_apply text;
ALTER TABLE groups ADD COLUMN forge_approvals boolean;
ALTER TABLE modules ADD COLUMN pull_request_plans boolean;
ALTER TABLE modules ADD COLUMN pull_request_apply text;
ALTER TABLE modules ADD COLUMN forge_approvals boolean;
ALTER TABLE modules ADD COLUMN watch text NOT NULL DEFAULT '[]';

CREATE TABLE pull_requests (
    id text PRIMARY KEY REFERENCES forge_pull_requests (id) ON DELETE CASCADE,
    organization_id text NOT NULL,
    -- Nothing is done about one that is not active. It ended, and nothing of it waits.
    is_active boolean NOT NULL DEFAULT true,
    -- The facts, the newest known commit of the target branch, and the two commits, that were looked at last.
    seen_revision bigint NOT NULL DEFAULT 0,
    seen_base text NOT NULL DEFAULT '',
    head_commit text NOT NULL DEFAULT '',
    base_commit text NOT NULL DEFAULT '',
    -- The result of merging them, as it is the source of the jobs.
    source text,
    -- Why nothing is planned, and whether that is a person's turn and no failure.
    problem text NOT NULL DEFAULT '',
    is_waiting boolean NOT NULL DEFAULT false,
    -- The branch that it was to be merged into when it was looked at first.
    first_branch text NOT NULL DEFAULT '',
    -- The commit of a fork that a member allows to be planned, for this target branch.
    allowed_commit text NOT NULL DEFAULT '',
    allowed_branch text NOT NULL DEFAULT '',
    allowed_by text NOT NULL DEFAULT '',
    -- Which of its commits somebody has asked to apply, and which one was merged from here.
    asked_commit text NOT NULL DEFAULT '',
    merge_commit text NOT NULL DEFAULT '',
    -- Whether it is known which modules its merge has changed.
    is_merge_read boolean NOT NULL DEFAULT false,
    -- What the forge was shown: digests by the names of statuses, beside `comment`.
    comment_id text NOT NULL DEFAULT '',
    shown_commit text NOT NULL DEFAULT '',
    shown text NOT NULL DEFAULT '{}',
    show_problem text NOT NULL DEFAULT '',
    -- When something was written to the forge last, so that all servers together keep its limits.
    writes text NOT NULL DEFAULT '[]',
    replies text NOT NULL DEFAULT '[]',
    due_at double precision,
    failures bigint NOT NULL DEFAULT 0,
    lease_holder text,
    lease_until double precision,
    created_at double precision NOT NULL,
    CHECK ((lease_holder IS NULL) = (lease_until IS NULL))
);
CREATE INDEX pull_requests_active ON pull_requests (id) WHERE is_active;
CREATE INDEX pull_requests_of_organization ON pull_requests (organization_id, id);

CREATE TABLE pull_request_modules (
    pull_request_id text NOT NULL REFERENCES pull_requests (id) ON DELETE CASCADE,
    module_id text NOT NULL REFERENCES modules (id) ON DELETE CASCADE,
    -- What the files of the module are after the merge, and the commits that its plan was made for.
    digest text NOT NULL,
    head_commit text NOT NULL,
    base_commit text NOT NULL,
    state text NOT NULL,
    reason text NOT NULL DEFAULT '',
    counts text NOT NULL DEFAULT '',
    size bigint NOT NULL DEFAULT 0,
    resources text NOT NULL DEFAULT '[]',
    plan_job_id text,
    plan_status text NOT NULL DEFAULT '',
    -- Whether the merge applies it, as the settings were when it was merged.
    is_on_merge boolean NOT NULL DEFAULT false,
    apply_job_id text,
    apply_status text NOT NULL DEFAULT '',
    -- The state of the module that the plan was made from.
    state_version bigint NOT NULL DEFAULT 0,
    changed_at double precision NOT NULL,
    PRIMARY KEY (pull_request_id, module_id)
);
CREATE INDEX pull_request_modules_of_module ON pull_request_modules (module_id);
CREATE INDEX pull_request_modules_plans ON pull_request_modules (plan_job_id) WHERE plan_job_id IS NOT NULL;
CREATE INDEX pull_request_modules_applies ON pull_request_modules (apply_job_id) WHERE apply_job_id IS NOT NULL;

-- Which user of a forge is which user here. An administrator says so.
CREATE TABLE forge_users (
    connection_id text NOT NULL REFERENCES forge_connections (id) ON DELETE CASCADE,
    forge_user_id text NOT NULL,
    forge_user text NOT NULL,
    user_id text NOT NULL,
    linked_by text NOT NULL,
    linked_at double precision NOT NULL,
    PRIMARY KEY (connection_id, forge_user_id)
);
CREATE INDEX forge_users_of_user ON forge_users (user_id);
