-- The tree, the runners, the jobs, their logs and their states. Times are seconds since 1970 by the database's clock.

CREATE TABLE leases (
    name text PRIMARY KEY,
    holder text NOT NULL,
    expires_at double precision NOT NULL
);

CREATE TABLE organizations (
    id text PRIMARY KEY,
    name text NOT NULL UNIQUE,
    next_job_number bigint NOT NULL DEFAULT 1,
    created_at double precision NOT NULL
);

-- The organization itself is the group with the empty path, so that every place of the tree is a group or a module.
CREATE TABLE groups (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    parent_id text REFERENCES groups (id),
    name text NOT NULL,
    path text NOT NULL,
    depth bigint NOT NULL,
    description text NOT NULL DEFAULT '',
    created_at double precision NOT NULL,
    CONSTRAINT groups_path UNIQUE (organization_id, path),
    CHECK ((parent_id IS NULL) = (path = ''))
);

CREATE TABLE archives (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    sha256 text NOT NULL,
    size bigint NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL
);

CREATE TABLE modules (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    group_id text NOT NULL REFERENCES groups (id),
    name text NOT NULL,
    path text NOT NULL,
    description text NOT NULL DEFAULT '',
    engine text NOT NULL CHECK (engine IN ('tofu', 'terraform', 'pulumi')),
    source text NOT NULL,
    inputs text NOT NULL DEFAULT '{}',
    environment text NOT NULL DEFAULT '{}',
    backend text NOT NULL DEFAULT 'terracrew' CHECK (backend IN ('terracrew', 'own')),
    runner_id text,
    runner_instance_name text,
    state_version bigint NOT NULL DEFAULT 0,
    created_at double precision NOT NULL,
    CONSTRAINT modules_path UNIQUE (organization_id, path)
);

CREATE TABLE runners (
    id text PRIMARY KEY,
    organization_id text REFERENCES organizations (id),
    group_id text REFERENCES groups (id),
    name text NOT NULL,
    path text NOT NULL,
    description text NOT NULL DEFAULT '',
    type text NOT NULL CHECK (type IN ('self-hosted', 'cloud-hosted')),
    region text,
    service_account_id text,
    worker_token_sha256 text,
    is_disabled boolean NOT NULL DEFAULT false,
    is_draining boolean NOT NULL DEFAULT false,
    allow_multiple_instances boolean NOT NULL DEFAULT false,
    max_jobs bigint NOT NULL DEFAULT 100 CHECK (max_jobs > 0),
    tags text NOT NULL DEFAULT '[]',
    created_at double precision NOT NULL,
    CHECK ((organization_id IS NULL) = (group_id IS NULL)),
    CHECK (group_id IS NOT NULL OR service_account_id IS NULL),
    CHECK (region IS NULL OR type = 'cloud-hosted')
);
CREATE UNIQUE INDEX runners_path ON runners (organization_id, path) WHERE organization_id IS NOT NULL;
CREATE UNIQUE INDEX runners_shared ON runners (path) WHERE organization_id IS NULL;

-- A place is a group (the organization's root included) or a module; its path is kept to find what it covers.
CREATE TABLE assignments (
    runner_id text NOT NULL REFERENCES runners (id) ON DELETE CASCADE,
    place_id text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('group', 'module')),
    organization_id text NOT NULL REFERENCES organizations (id),
    path text NOT NULL,
    created_at double precision NOT NULL,
    PRIMARY KEY (runner_id, place_id)
);
CREATE INDEX assignments_path ON assignments (organization_id, path);

-- One row for each place that a process of a runner may take; the epoch rises with every connection.
CREATE TABLE instances (
    id text PRIMARY KEY,
    runner_id text NOT NULL REFERENCES runners (id) ON DELETE CASCADE,
    name text NOT NULL,
    key_sha256 text NOT NULL,
    epoch bigint NOT NULL,
    server_id text,
    version text NOT NULL,
    capacity bigint NOT NULL,
    engines text NOT NULL DEFAULT '{}',
    is_connected boolean NOT NULL,
    is_draining boolean NOT NULL,
    connected_at double precision NOT NULL,
    disconnected_at double precision,
    heard_at double precision NOT NULL,
    CONSTRAINT instances_name UNIQUE (runner_id, name)
);

CREATE TABLE jobs (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    module_id text NOT NULL REFERENCES modules (id),
    number bigint NOT NULL,
    type text NOT NULL CHECK (type IN ('PLAN', 'APPLY', 'DESTROY', 'DEPLOY_WORKER', 'UPDATE_WORKER', 'DESTROY_WORKER', 'CONNECTION_TEST')),
    status text NOT NULL CHECK (status IN ('QUEUED', 'CLAIMED', 'PROCESSING', 'AWAITING_APPROVAL', 'SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED')),
    attempt bigint NOT NULL DEFAULT 1 CHECK (attempt > 0),
    losses bigint NOT NULL DEFAULT 0,
    priority bigint NOT NULL DEFAULT 0,
    runner_id text,
    instance_id text,
    cancel_mode text CHECK (cancel_mode IN ('after_step', 'interrupt', 'kill')),
    source text NOT NULL,
    source_digest text NOT NULL DEFAULT '',
    source_description text NOT NULL DEFAULT '',
    engine_version text NOT NULL DEFAULT '',
    plan text,
    message text NOT NULL DEFAULT '',
    created_by text NOT NULL,
    idempotency_key text,
    created_at double precision NOT NULL,
    queued_at double precision NOT NULL,
    claimed_at double precision,
    started_at double precision,
    finished_at double precision,
    CONSTRAINT jobs_number UNIQUE (organization_id, number),
    CHECK ((status IN ('CLAIMED', 'PROCESSING')) <= (instance_id IS NOT NULL)),
    CHECK ((status IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED')) = (finished_at IS NOT NULL)),
    CHECK (status <> 'QUEUED' OR instance_id IS NULL)
);
CREATE UNIQUE INDEX jobs_one_active_per_module ON jobs (module_id) WHERE status IN ('CLAIMED', 'PROCESSING');
CREATE UNIQUE INDEX jobs_idempotency ON jobs (organization_id, created_by, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_queue ON jobs (priority DESC, queued_at) WHERE status = 'QUEUED';
CREATE INDEX jobs_of_instance ON jobs (instance_id) WHERE status IN ('CLAIMED', 'PROCESSING');
CREATE INDEX jobs_of_module ON jobs (module_id, id);
CREATE INDEX jobs_open ON jobs (organization_id, id) WHERE status NOT IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED');

CREATE TABLE attempts (
    job_id text NOT NULL REFERENCES jobs (id),
    number bigint NOT NULL,
    runner_id text NOT NULL,
    instance_id text NOT NULL,
    hub_sha256 text NOT NULL,
    api_sha256 text NOT NULL,
    state_key bytea NOT NULL,
    mark bigint NOT NULL DEFAULT 0,
    lines bigint NOT NULL DEFAULT 0,
    claimed_at double precision NOT NULL,
    started_at double precision,
    begun_at double precision,
    begun_state_version bigint,
    ended_at double precision,
    outcome text CHECK (outcome IN ('succeeded', 'failed', 'canceled', 'waiting', 'handed_back', 'lost', 'gone')),
    reason text NOT NULL DEFAULT '',
    is_gone boolean NOT NULL DEFAULT false,
    PRIMARY KEY (job_id, number),
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK ((begun_at IS NULL) = (begun_state_version IS NULL))
);
CREATE UNIQUE INDEX attempts_hub ON attempts (hub_sha256);
CREATE UNIQUE INDEX attempts_api ON attempts (api_sha256);
CREATE INDEX attempts_open ON attempts (job_id) WHERE ended_at IS NULL;

CREATE TABLE steps (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    name text NOT NULL,
    status text NOT NULL CHECK (status IN ('RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED', 'SKIPPED')),
    started_at double precision,
    finished_at double precision,
    exit_code bigint,
    PRIMARY KEY (job_id, attempt, name)
);

-- What came after an end, or from a superseded attempt, and changed nothing: kept for people.
CREATE TABLE notes (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    event bigint NOT NULL,
    text text NOT NULL,
    created_at double precision NOT NULL,
    PRIMARY KEY (job_id, attempt, event)
);

-- A chunk is a batch of log records as it came, compressed. `first_line` counts the line feeds before it.
CREATE TABLE log_chunks (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    first_line bigint NOT NULL,
    lines bigint NOT NULL,
    size bigint NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (job_id, attempt, first)
);

-- A small state is in its row, a large one in the object store; either way encrypted under the master key.
CREATE TABLE states (
    id text PRIMARY KEY,
    module_id text NOT NULL REFERENCES modules (id),
    version bigint,
    status text NOT NULL CHECK (status IN ('current', 'superseded', 'quarantined', 'discarded')),
    job_id text NOT NULL,
    attempt bigint NOT NULL,
    event bigint NOT NULL,
    origin text NOT NULL,
    serial bigint NOT NULL,
    lineage text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    content bytea,
    object text,
    created_at double precision NOT NULL,
    CHECK ((content IS NULL) <> (object IS NULL)),
    CONSTRAINT states_event UNIQUE (job_id, attempt, event),
    CHECK ((version IS NOT NULL) >= (status IN ('current', 'superseded')))
);
CREATE UNIQUE INDEX states_current ON states (module_id) WHERE status = 'current';
CREATE UNIQUE INDEX states_version ON states (module_id, version) WHERE version IS NOT NULL;
CREATE INDEX states_quarantine ON states (module_id) WHERE status = 'quarantined';

-- One row for each job that read its outputs; `content` is encrypted where any of them is sensitive.
CREATE TABLE outputs (
    job_id text PRIMARY KEY REFERENCES jobs (id),
    module_id text NOT NULL REFERENCES modules (id),
    sha256 text NOT NULL,
    content bytea NOT NULL,
    created_at double precision NOT NULL
);
CREATE INDEX outputs_of_module ON outputs (module_id, created_at);
