-- Who may do what: people, service accounts, their secrets (hashes only), roles, and the record of every change.

CREATE TABLE settings (
    name text PRIMARY KEY,
    value bytea NOT NULL
);

-- The private part is encrypted under the master key. At most one key signs; the others only verify what they signed.
CREATE TABLE signing_keys (
    id text PRIMARY KEY,
    public_jwk text NOT NULL,
    private_jwk bytea NOT NULL,
    is_active boolean NOT NULL,
    created_at double precision NOT NULL,
    retired_at double precision,
    CHECK (is_active = (retired_at IS NULL))
);
CREATE UNIQUE INDEX signing_keys_active ON signing_keys (is_active) WHERE is_active;

CREATE TABLE users (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    name text NOT NULL,
    password_hash text,
    is_system_admin boolean NOT NULL DEFAULT false,
    is_disabled boolean NOT NULL DEFAULT false,
    created_at double precision NOT NULL,
    CONSTRAINT users_name UNIQUE (name)
);

CREATE TABLE one_time_links (
    token_sha256 text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL
);
CREATE INDEX one_time_links_of_user ON one_time_links (user_id);

CREATE TABLE sessions (
    id text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_sha256 text NOT NULL,
    created_at double precision NOT NULL,
    seen_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    CONSTRAINT sessions_token UNIQUE (token_sha256)
);
CREATE INDEX sessions_of_user ON sessions (user_id);
CREATE INDEX sessions_expiry ON sessions (expires_at);

CREATE TABLE api_tokens (
    id text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name text NOT NULL,
    token_sha256 text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision,
    last_used_at double precision,
    CONSTRAINT api_tokens_name UNIQUE (user_id, name),
    CONSTRAINT api_tokens_token UNIQUE (token_sha256)
);

CREATE TABLE service_accounts (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    group_id text NOT NULL REFERENCES groups (id),
    name text NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    CONSTRAINT service_accounts_name UNIQUE (group_id, name)
);
CREATE INDEX service_accounts_of_organization ON service_accounts (organization_id, id);

CREATE TABLE service_account_secrets (
    id text PRIMARY KEY,
    service_account_id text NOT NULL REFERENCES service_accounts (id) ON DELETE CASCADE,
    secret_sha256 text NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision,
    last_used_at double precision,
    CONSTRAINT service_account_secrets_secret UNIQUE (secret_sha256)
);
CREATE INDEX service_account_secrets_of_account ON service_account_secrets (service_account_id);

-- A role holds at a group and everything below it, or at one module. It goes with its place: a new group of an old path starts bare.
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
    CONSTRAINT role_bindings_place UNIQUE (principal_id, organization_id, place_kind, path),
    CHECK ((place_kind = 'group') = (group_id IS NOT NULL)),
    CHECK ((place_kind = 'module') = (module_id IS NOT NULL))
);
CREATE INDEX role_bindings_of_organization ON role_bindings (organization_id, id);

CREATE TABLE audit (
    id text PRIMARY KEY,
    organization_id text,
    created_at double precision NOT NULL,
    actor_kind text NOT NULL,
    actor_id text NOT NULL,
    actor_name text NOT NULL,
    action text NOT NULL,
    target_kind text NOT NULL,
    target_id text NOT NULL,
    details text NOT NULL
);
CREATE INDEX audit_of_organization ON audit (organization_id, id);
CREATE INDEX audit_of_target ON audit (target_id, id);
