-- Connections to forges, the repositories that are watched, what the forges deliver, and the facts of pull requests.
-- older servers: continue

-- `sealed` has the token or the key of the application, and the secret of the hooks, encrypted under the master key.
CREATE TABLE forge_connections (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    group_id text NOT NULL REFERENCES groups (id),
    name text NOT NULL,
    description text NOT NULL DEFAULT '',
    kind text NOT NULL CHECK (kind IN ('github', 'gitlab', 'gitea', 'git')),
    base_url text NOT NULL,
    -- Only repositories below this owner or group of the forge belong to the connection; empty for all of them.
    owner text NOT NULL DEFAULT '',
    -- The number of an application of GitHub; empty if there is a token instead.
    app_id text NOT NULL DEFAULT '',
    username text NOT NULL DEFAULT '',
    makes_hooks boolean NOT NULL DEFAULT true,
    -- Whether pull requests may be merged with its token.
    merges boolean NOT NULL DEFAULT false,
    sealed bytea NOT NULL,
    -- It increases with every change of the credential, so that no server goes on with an older one.
    credential_version bigint NOT NULL DEFAULT 1,
    -- The last contact. Nothing is asked before `away_until`.
    contacted_at double precision,
    problem text NOT NULL DEFAULT '',
    failures bigint NOT NULL DEFAULT 0,
    away_until double precision,
    delivered_at double precision,
    wrong_delivery_at double precision,
    tested_at double precision,
    findings text NOT NULL DEFAULT '[]',
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    CONSTRAINT forge_connections_name UNIQUE (group_id, name),
    CHECK (app_id = '' OR kind = 'github')
);
CREATE INDEX forge_connections_of_organization ON forge_connections (organization_id, id);

CREATE TABLE forge_repositories (
    id text PRIMARY KEY,
    connection_id text NOT NULL REFERENCES forge_connections (id) ON DELETE CASCADE,
    name text NOT NULL,
    -- The name in lower case: forges do not tell names apart by case.
    name_key text NOT NULL,
    clone_url text NOT NULL DEFAULT '',
    url text NOT NULL DEFAULT '',
    default_branch text NOT NULL DEFAULT '',
    default_commit text NOT NULL DEFAULT '',
    default_commit_at double precision,
    -- Somebody has added it by its name; otherwise it is watched because modules have it as their source.
    is_added boolean NOT NULL DEFAULT false,
    is_watched boolean NOT NULL DEFAULT true,
    etag text NOT NULL DEFAULT '',
    branch_etag text NOT NULL DEFAULT '',
    -- The order of the questions: an answer to an older question never replaces what a newer one has told.
    question bigint NOT NULL DEFAULT 0,
    default_question bigint NOT NULL DEFAULT 0,
    list_question bigint NOT NULL DEFAULT 0,
    polled_at double precision,
    poll_at double precision NOT NULL,
    lease_holder text,
    lease_until double precision,
    -- Comments are asked for from this time on, by the clock of the forge.
    comments_since double precision NOT NULL,
    comments_asked_at double precision,
    hook_id text NOT NULL DEFAULT '',
    hook_status text NOT NULL DEFAULT 'unknown' CHECK (hook_status IN ('unknown', 'enabled', 'disabled', 'missing', 'none')),
    hook_message text NOT NULL DEFAULT '',
    checked_at double precision,
    problem text NOT NULL DEFAULT '',
    failures bigint NOT NULL DEFAULT 0,
    created_at double precision NOT NULL,
    CONSTRAINT forge_repositories_name UNIQUE (connection_id, name_key),
    CHECK ((lease_holder IS NULL) = (lease_until IS NULL))
);
CREATE INDEX forge_repositories_due ON forge_repositories (poll_at) WHERE is_watched;

-- What the forges delivered, without the bodies: a delivery is a reason to ask, and no fact.
CREATE TABLE forge_deliveries (
    id text PRIMARY KEY,
    connection_id text NOT NULL REFERENCES forge_connections (id) ON DELETE CASCADE,
    delivery_id text NOT NULL,
    event text NOT NULL,
    events text NOT NULL,
    received_at double precision NOT NULL,
    handled_at double precision,
    problem text NOT NULL DEFAULT '',
    tries bigint NOT NULL DEFAULT 0,
    -- When it is handled next, or from when on another server may take it.
    try_at double precision,
    CONSTRAINT forge_deliveries_delivery UNIQUE (connection_id, delivery_id),
    CHECK ((handled_at IS NULL) = (try_at IS NOT NULL))
);
CREATE INDEX forge_deliveries_due ON forge_deliveries (try_at) WHERE handled_at IS NULL;
CREATE INDEX forge_deliveries_handled ON forge_deliveries (handled_at) WHERE handled_at IS NOT NULL;
CREATE INDEX forge_deliveries_of_connection ON forge_deliveries (connection_id, id);

CREATE TABLE forge_pull_requests (
    id text PRIMARY KEY,
    repository_id text NOT NULL REFERENCES forge_repositories (id) ON DELETE CASCADE,
    number bigint NOT NULL CHECK (number > 0),
    title text NOT NULL,
    url text NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'merged', 'closed')),
    author text NOT NULL,
    author_id text NOT NULL,
    head_commit text NOT NULL,
    head_branch text NOT NULL,
    base_branch text NOT NULL,
    head_ref text NOT NULL,
    is_fork boolean NOT NULL,
    is_draft boolean NOT NULL,
    merge_commit text NOT NULL,
    merged_by text NOT NULL,
    merged_by_id text NOT NULL,
    updated_at double precision,
    -- It increases with every change of the facts.
    revision bigint NOT NULL,
    question bigint NOT NULL,
    first_seen_at double precision NOT NULL,
    changed_at double precision NOT NULL,
    CONSTRAINT forge_pull_requests_number UNIQUE (repository_id, number),
    CHECK (merge_commit = '' OR state = 'merged')
);
CREATE INDEX forge_pull_requests_open ON forge_pull_requests (repository_id, number) WHERE state = 'open';

-- Comments that are commands. Each counts once, with the text in which it was first seen.
CREATE TABLE forge_comments (
    id text PRIMARY KEY,
    repository_id text NOT NULL REFERENCES forge_repositories (id) ON DELETE CASCADE,
    comment_id text NOT NULL,
    number bigint NOT NULL,
    author text NOT NULL,
    author_id text NOT NULL,
    body text NOT NULL,
    url text NOT NULL,
    created_at double precision NOT NULL,
    seen_at double precision NOT NULL,
    is_handled boolean NOT NULL DEFAULT false,
    CONSTRAINT forge_comments_comment UNIQUE (repository_id, comment_id)
);
CREATE INDEX forge_comments_open ON forge_comments (repository_id, number, id) WHERE NOT is_handled;
