-- Indexes for the lists that people read: each list reads its page, and not everything that its reader may not see.

CREATE INDEX jobs_of_organization ON jobs (organization_id, id);
CREATE INDEX jobs_by_status ON jobs (organization_id, status, id);
-- Partial, so that a job enters the first once, when it ends, and the second is small.
CREATE INDEX jobs_ended_of_module ON jobs (module_id, status, id)
    WHERE status IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED');
CREATE INDEX jobs_open_of_module ON jobs (module_id, id)
    WHERE status NOT IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED');

CREATE INDEX groups_of_parent ON groups (parent_id, id);
CREATE INDEX groups_of_organization ON groups (organization_id, id);
CREATE INDEX modules_of_organization ON modules (organization_id, id);
CREATE INDEX modules_of_group ON modules (group_id, name);
CREATE INDEX modules_pinned ON modules (runner_id, path) WHERE runner_id IS NOT NULL;
CREATE INDEX runners_of_organization ON runners (organization_id, id);
CREATE INDEX runners_of_group ON runners (group_id, id) WHERE group_id IS NOT NULL;
CREATE INDEX users_of_organization ON users (organization_id, id);

-- A heartbeat changes none of its columns.
CREATE INDEX instances_disconnected ON instances (runner_id, disconnected_at) WHERE NOT is_connected;

CREATE INDEX states_of_module ON states (module_id, id);
