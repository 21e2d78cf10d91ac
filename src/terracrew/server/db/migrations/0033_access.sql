-- Roles that end, logins, service accounts that are disabled, and the organization that a session works in.
ALTER TABLE role_bindings ADD COLUMN expires_at double precision;
CREATE INDEX role_bindings_of_group ON role_bindings (group_id, id) WHERE group_id IS NOT NULL;
CREATE INDEX role_bindings_of_module ON role_bindings (module_id, id) WHERE module_id IS NOT NULL;
CREATE INDEX role_bindings_expiry ON role_bindings (expires_at) WHERE expires_at IS NOT NULL;
ALTER TABLE users ADD COLUMN last_login_at double precision;
ALTER TABLE sessions ADD COLUMN organization_id text;
ALTER TABLE service_accounts ADD COLUMN is_disabled boolean NOT NULL DEFAULT false;

-- The place of the tree that an entry of the audit log is about, and the first name of its path. Entries from before have neither.
ALTER TABLE audit ADD COLUMN path text;
ALTER TABLE audit ADD COLUMN stack text;

-- Each index returns the entries that a filter of the audit log selects in the order of their ids.
CREATE INDEX audit_of_actor ON audit (organization_id, actor_id, id);
CREATE INDEX audit_of_action ON audit (organization_id, action, id);
CREATE INDEX audit_at_path ON audit (organization_id, path, id) WHERE path IS NOT NULL;
CREATE INDEX audit_in_stack ON audit (organization_id, stack, id) WHERE stack IS NOT NULL;
