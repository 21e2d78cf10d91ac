-- Policies, their versions, and what they have said about plans.
-- Older servers end before this: they would permit what no policy has looked at.
ALTER TABLE plan_json ADD COLUMN plan_sha256 text NOT NULL DEFAULT '';

CREATE TABLE policies (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    group_id text REFERENCES groups (id) ON DELETE CASCADE,
    module_id text REFERENCES modules (id) ON DELETE CASCADE,
    name text NOT NULL,
    description text NOT NULL,
    enforcement text NOT NULL CHECK (enforcement IN ('advisory', 'mandatory', 'approvers')),
    approvals bigint NOT NULL CHECK (approvals BETWEEN 1 AND 10),
    role text NOT NULL CHECK (role IN ('approver', 'owner')),
    time_zone text NOT NULL,
    state text NOT NULL CHECK (state IN ('draft', 'active', 'retired')),
    active_version bigint,
    newest_version bigint NOT NULL,
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    changed_at double precision NOT NULL,
    CHECK ((group_id IS NULL) <> (module_id IS NULL)),
    CHECK ((state = 'active') = (active_version IS NOT NULL)),
    CONSTRAINT policies_name_of_group UNIQUE (group_id, name),
    CONSTRAINT policies_name_of_module UNIQUE (module_id, name)
);
CREATE INDEX policies_of_organization ON policies (organization_id, id);

CREATE TABLE policy_versions (
    policy_id text NOT NULL REFERENCES policies (id) ON DELETE CASCADE,
    number bigint NOT NULL,
    rego text NOT NULL,
    sha256 text NOT NULL,
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    PRIMARY KEY (policy_id, number)
);

-- What each policy has said last about the plan of a job. It stays when the policy is deleted.
CREATE TABLE policy_results (
    job_id text NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    policy_id text NOT NULL,
    version bigint NOT NULL,
    name text NOT NULL,
    enforcement text NOT NULL CHECK (enforcement IN ('advisory', 'mandatory', 'approvers')),
    approvals bigint NOT NULL,
    role text NOT NULL CHECK (role IN ('approver', 'owner')),
    verdict text NOT NULL CHECK (verdict IN ('passed', 'warned', 'denied', 'failed')),
    messages text NOT NULL,
    attempt bigint NOT NULL,
    plan_sha256 text NOT NULL,
    json_sha256 text NOT NULL,
    input_sha256 text NOT NULL,
    checked_at double precision NOT NULL,
    PRIMARY KEY (job_id, policy_id)
);
