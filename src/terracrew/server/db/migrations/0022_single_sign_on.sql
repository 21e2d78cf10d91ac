-- People log in by providers of their organization, and rules turn their claims into roles. A person may have a role at one place by
-- hand and another one by each provider, which the statements of an older server do not expect, so it has to end first.

CREATE TABLE role_bindings_before AS SELECT * FROM role_bindings;
DROP TABLE role_bindings;
CREATE TABLE role_bindings (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    principal_kind text NOT NULL CHECK (principal_kind IN ('user', 'service_account')),
    principal_id text NOT NULL,
    role text NOT NULL CHECK (role IN ('viewer', 'operator', 'approver', 'owner')),
    place_kind text NOT NULL CHECK (place_kind IN ('group', 'module')),
    group_id text REFERENCES groups (id) ON DELETE CASCADE,
    module_id text REFERENCES modules (id) ON DELETE CASCADE,
    path text NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision,
    -- The identity provider whose rules give the role, and the rule. Empty: a person has granted it.
    source text NOT NULL DEFAULT '',
    source_rule text NOT NULL DEFAULT '',
    CONSTRAINT role_bindings_place UNIQUE (principal_id, organization_id, place_kind, path, source),
    CHECK ((place_kind = 'group') = (group_id IS NOT NULL)),
    CHECK ((place_kind = 'module') = (module_id IS NOT NULL))
);
INSERT INTO role_bindings (id, organization_id, principal_kind, principal_id, role, place_kind, group_id, module_id, path, created_by,
    created_at, expires_at)
    SELECT id, organization_id, principal_kind, principal_id, role, place_kind, group_id, module_id, path, created_by,
        created_at, expires_at FROM role_bindings_before;
DROP TABLE role_bindings_before;
CREATE INDEX role_bindings_of_organization ON role_bindings (organization_id, id);
CREATE INDEX role_bindings_of_group ON role_bindings (group_id, id) WHERE group_id IS NOT NULL;
CREATE INDEX role_bindings_of_module ON role_bindings (module_id, id) WHERE module_id IS NOT NULL;
CREATE INDEX role_bindings_expiry ON role_bindings (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX role_bindings_of_members ON role_bindings (organization_id, principal_kind, principal_id);
CREATE INDEX role_bindings_of_source ON role_bindings (source) WHERE source <> '';

CREATE TABLE identity_providers (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    name text NOT NULL,
    issuer text NOT NULL,
    client_id text NOT NULL,
    -- The client secret, encrypted under the master key. NULL: a client without one.
    sealed bytea,
    scopes text NOT NULL,
    name_claim text NOT NULL,
    groups_claim text NOT NULL,
    admit_claim text NOT NULL,
    admit_value text NOT NULL,
    makes_users boolean NOT NULL,
    reads_userinfo boolean NOT NULL,
    is_trusted boolean NOT NULL,
    is_enabled boolean NOT NULL,
    confirm_days bigint NOT NULL,
    -- Counts the changes of its rules. An identity that was evaluated at an earlier count is evaluated again.
    rules_version bigint NOT NULL DEFAULT 0,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    CONSTRAINT identity_providers_name UNIQUE (organization_id, name)
);

CREATE TABLE mapping_rules (
    id text PRIMARY KEY,
    provider_id text NOT NULL REFERENCES identity_providers (id) ON DELETE CASCADE,
    claim text NOT NULL,
    is_pattern boolean NOT NULL,
    value text NOT NULL,
    role text NOT NULL CHECK (role IN ('viewer', 'operator', 'approver', 'owner')),
    group_id text REFERENCES groups (id) ON DELETE CASCADE,
    module_id text REFERENCES modules (id) ON DELETE CASCADE,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    CHECK ((group_id IS NULL) <> (module_id IS NULL))
);
CREATE INDEX mapping_rules_of_provider ON mapping_rules (provider_id, id);
CREATE INDEX mapping_rules_of_group ON mapping_rules (group_id) WHERE group_id IS NOT NULL;
CREATE INDEX mapping_rules_of_module ON mapping_rules (module_id) WHERE module_id IS NOT NULL;

CREATE TABLE identities (
    id text PRIMARY KEY,
    provider_id text NOT NULL REFERENCES identity_providers (id) ON DELETE CASCADE,
    -- The `sub` of the provider. Nothing else says who somebody is.
    subject text NOT NULL,
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    -- The claims of the last login or refresh, without those that look like secrets.
    claims text NOT NULL,
    confirmed_at double precision NOT NULL,
    -- The count of its provider's rules that the roles follow from.
    evaluated_version bigint NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    CONSTRAINT identities_subject UNIQUE (provider_id, subject),
    CONSTRAINT identities_provider_user UNIQUE (provider_id, user_id)
);
CREATE INDEX identities_of_user ON identities (user_id);
CREATE INDEX identities_of_provider ON identities (provider_id, confirmed_at);

-- The sessions that began with a login at a provider.
CREATE TABLE identity_sessions (
    session_id text PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
    identity_id text NOT NULL REFERENCES identities (id) ON DELETE CASCADE,
    provider_id text NOT NULL,
    -- The session at the provider, which its logout names.
    sid text NOT NULL,
    -- The refresh token, encrypted under the master key.
    sealed bytea,
    confirmed_at double precision NOT NULL,
    -- When the provider is asked again. NULL: it gave no refresh token.
    due_at double precision,
    -- Until when one server asks it.
    claimed_until double precision NOT NULL DEFAULT 0,
    failure text NOT NULL DEFAULT ''
);
CREATE INDEX identity_sessions_due ON identity_sessions (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX identity_sessions_of_identity ON identity_sessions (identity_id);
CREATE INDEX identity_sessions_of_provider ON identity_sessions (provider_id, sid);

-- The last logins of each provider, for the administrators who set it up.
CREATE TABLE identity_logins (
    id text PRIMARY KEY,
    provider_id text NOT NULL REFERENCES identity_providers (id) ON DELETE CASCADE,
    subject text NOT NULL,
    user_id text,
    outcome text NOT NULL,
    reason text NOT NULL,
    claims text NOT NULL,
    address text,
    created_at double precision NOT NULL
);
CREATE INDEX identity_logins_of_provider ON identity_logins (provider_id, id);

-- What may be used once and was: the states of logins and the ids of logout tokens, as hashes.
CREATE TABLE used_identity_tokens (
    sha256 text PRIMARY KEY,
    expires_at double precision NOT NULL
);
CREATE INDEX used_identity_tokens_expiry ON used_identity_tokens (expires_at);

-- The organizations whose people log in by single sign-on only.
CREATE TABLE login_policies (
    organization_id text PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    is_single_sign_on_required boolean NOT NULL
);
