-- The whole schema, in the subset of SQL that both databases understand. Times are seconds since 1970 by the database's clock.
-- Comments stand above what they describe: a table, a group of columns, an index.

-- Chores that one server at a time does.
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
    -- What follows when an engine was cut short in the middle of a change. Null: as the group above says; at the top, `ask`.
    interrupted text CHECK (interrupted IN ('ask', 'retry')),
    -- How much an APPLY may destroy without an approval. Null: as the group above says; at the top, everything but all.
    max_destroy bigint CHECK (max_destroy >= 0),
    max_destroy_percent bigint CHECK (max_destroy_percent BETWEEN 0 AND 100),
    -- Who may approve. Null: as the group above says; at the top, whoever queued the job may, and a service account may not.
    self_approval boolean,
    service_account_approval boolean,
    -- How many jobs run at once in and below a group. Every cap on the way from a module to the root applies.
    max_running_jobs bigint CHECK (max_running_jobs > 0),
    -- How many different people must approve a plan before it is applied. The largest number of the module and its groups applies.
    min_approvals bigint CHECK (min_approvals BETWEEN 1 AND 20),
    -- What a group or a module sets for its jobs: limits, cloud identities, and what is asked of dispatchers. A job has a copy of what applies.
    limits text NOT NULL DEFAULT '{}',
    cloud text NOT NULL DEFAULT '{}',
    dispatcher text NOT NULL DEFAULT '{}',
    CONSTRAINT groups_path UNIQUE (organization_id, path),
    CHECK ((parent_id IS NULL) = (path = ''))
);
CREATE INDEX groups_of_parent ON groups (parent_id, id);
CREATE INDEX groups_of_organization ON groups (organization_id, id);
-- A claim looks for the groups that limit how many jobs run at once, and counts the jobs that run below them.
CREATE INDEX groups_capped ON groups (organization_id) WHERE max_running_jobs IS NOT NULL;

CREATE TABLE archives (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    sha256 text NOT NULL,
    size bigint NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    -- Some of an archive's configuration files, enough to tell which folders have one for which engine. Null: not known.
    configurations text
);

CREATE TABLE modules (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    group_id text NOT NULL REFERENCES groups (id),
    name text NOT NULL,
    path text NOT NULL,
    description text NOT NULL DEFAULT '',
    team text NOT NULL DEFAULT '',
    -- It may be an engine of another package. The service checks the whole pattern; a CHECK that both databases understand checks the
    -- length and the case.
    engine text NOT NULL DEFAULT 'tofu' CHECK (length(engine) BETWEEN 1 AND 32 AND engine = lower(engine)),
    -- The versions of the engine that the module wants; instances announce all of theirs, and claims compare both.
    engine_version text NOT NULL DEFAULT '',
    source text NOT NULL,
    backend text NOT NULL DEFAULT 'terracrew' CHECK (backend IN ('terracrew', 'own')),
    runner_id text,
    runner_instance_name text,
    state_version bigint NOT NULL DEFAULT 0,
    created_at double precision NOT NULL,
    -- The clouds that a module's jobs get tokens for: the audiences, a JSON list.
    oidc_audiences text NOT NULL DEFAULT '[]',
    needs_approval boolean NOT NULL DEFAULT false,
    approval_seconds bigint NOT NULL DEFAULT 604800,
    interrupted text CHECK (interrupted IN ('ask', 'retry')),
    max_destroy bigint CHECK (max_destroy >= 0),
    max_destroy_percent bigint CHECK (max_destroy_percent BETWEEN 0 AND 100),
    -- Which runners may have the jobs of a module.
    tags text NOT NULL DEFAULT '[]',
    priority bigint NOT NULL DEFAULT 0 CHECK (priority BETWEEN -100 AND 100),
    min_approvals bigint CHECK (min_approvals BETWEEN 1 AND 20),
    -- Whether the module is applied by itself when an output that it uses has changed.
    triggers text NOT NULL DEFAULT 'manual' CHECK (triggers IN ('auto', 'manual')),
    limits text NOT NULL DEFAULT '{}',
    -- The key under which an engine encrypts the secrets in a module's state itself. It is made with the module's first job.
    sealed_key bytea,
    cloud text NOT NULL DEFAULT '{}',
    dispatcher text NOT NULL DEFAULT '{}',
    -- Whether every job runs init, without the warm workspace of an earlier one.
    is_fresh boolean NOT NULL DEFAULT false,
    CONSTRAINT modules_path UNIQUE (organization_id, path)
);
CREATE INDEX modules_of_organization ON modules (organization_id, id);
CREATE INDEX modules_of_group ON modules (group_id, name);
CREATE INDEX modules_pinned ON modules (runner_id, path) WHERE runner_id IS NOT NULL;
CREATE INDEX modules_in_group ON modules (group_id, id);
-- Which modules (and below, which jobs) use an archive: its id in their source, which starts with {"kind":"archive","archive_id":"arc_…".
CREATE INDEX modules_archive ON modules (substr(source, 33, 36));

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
    -- What operators set for the processes of a runner; what is missing is as the runner's own settings say.
    configuration text NOT NULL DEFAULT '{}',
    -- The token that a runner has made to follow its present one. Both are good until it is used.
    next_worker_token_sha256 text,
    -- Since when a runner is being removed: it drains, and its row is deleted after its last job.
    removing_since double precision CHECK (removing_since IS NULL OR is_draining),
    -- Whether the server's configuration declares a shared runner: then only the configuration changes and removes it.
    is_declared boolean NOT NULL DEFAULT false CHECK (NOT is_declared OR organization_id IS NULL),
    -- The settings file of the server that declares a shared runner, or that declared it until it was retired.
    declared_in text CHECK (declared_in IS NULL OR organization_id IS NULL),
    -- When the worker token of a runner ends, and whether the runner replaces it by itself. A shared runner's token has no end here.
    worker_token_expires_at double precision,
    is_worker_token_rotated boolean NOT NULL DEFAULT false,
    -- Whether a runner without an instance counts as available, because the cloud starts one as soon as a job needs it.
    can_wake boolean NOT NULL DEFAULT false CHECK (NOT can_wake OR type = 'cloud-hosted'),
    CHECK ((organization_id IS NULL) = (group_id IS NULL)),
    CHECK (group_id IS NOT NULL OR service_account_id IS NULL),
    CHECK (region IS NULL OR type = 'cloud-hosted')
);
CREATE UNIQUE INDEX runners_path ON runners (organization_id, path) WHERE organization_id IS NOT NULL;
CREATE UNIQUE INDEX runners_shared ON runners (path) WHERE organization_id IS NULL;
CREATE INDEX runners_worker_token ON runners (worker_token_sha256) WHERE worker_token_sha256 IS NOT NULL;
CREATE INDEX runners_of_organization ON runners (organization_id, id);
CREATE INDEX runners_of_group ON runners (group_id, id) WHERE group_id IS NOT NULL;
CREATE INDEX runners_next_worker_token ON runners (next_worker_token_sha256) WHERE next_worker_token_sha256 IS NOT NULL;
CREATE INDEX runners_removing ON runners (removing_since) WHERE removing_since IS NOT NULL;
CREATE INDEX runners_can_wake ON runners (id) WHERE can_wake;

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
CREATE INDEX assignments_place ON assignments (place_id);

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
    -- Set by a process that wants the place of another one, cleared by the answer of the connection that has it.
    asked_at double precision,
    -- Why a draining instance takes no jobs: its disk is full, or else it is about to stop.
    is_disk_full boolean NOT NULL DEFAULT false,
    -- What keeps the modules that an instance runs from its own files, as the runner says it: landlock, none or unavailable.
    isolation text NOT NULL DEFAULT '',
    -- The client's address.
    address text,
    -- The hash of the secret by which the process of an instance's last connection takes its place again at once.
    resume_sha256 text NOT NULL DEFAULT '',
    engine_versions text NOT NULL DEFAULT '{}',
    installable_engines text NOT NULL DEFAULT '[]',
    -- What a runner says about the machine that it runs on; empty if it does not know.
    machine text NOT NULL DEFAULT '',
    dispatchers text NOT NULL DEFAULT '[]',
    -- The token that a connected instance came with, so that its claim uses the token up; null: a credential for any number of jobs.
    once_token_id text,
    -- Whether the server has agreed that the process of an instance ends. It drains until then.
    is_leaving boolean NOT NULL DEFAULT false CHECK (NOT is_leaving OR is_draining),
    -- What announced the end of an instance or its machine (a signal, a spot notice), and when it ends at the latest.
    drain_reason text NOT NULL DEFAULT '',
    ends_at double precision,
    -- How the process of an instance was installed, whether it updates itself, and how its trial ended (ADR 0080, ADR 0081).
    installation text NOT NULL DEFAULT '{}',
    is_self_updating boolean NOT NULL DEFAULT false,
    is_on_trial boolean NOT NULL DEFAULT false,
    -- NULL until a process that was started on trial has reported how it ended.
    trial_passed boolean,
    trial_words text NOT NULL DEFAULT '',
    -- Why the instance was asked to end after its last job; empty if it was not.
    retire_reason text NOT NULL DEFAULT '',
    CONSTRAINT instances_name UNIQUE (runner_id, name)
);
-- Rows of hosts that no longer exist accumulate; only the connected ones are read.
CREATE INDEX instances_connected ON instances (id) WHERE is_connected;
-- The connected instances of a runner are found without reading those that it had.
CREATE INDEX instances_connected_of_runner ON instances (runner_id, id) WHERE is_connected;
CREATE INDEX instances_gone ON instances (disconnected_at) WHERE NOT is_connected;
-- A heartbeat changes none of its columns.
CREATE INDEX instances_disconnected ON instances (runner_id, disconnected_at) WHERE NOT is_connected;
-- The status of a runner is known without reading its instances.
CREATE INDEX instances_status ON instances (runner_id, is_draining) WHERE is_connected;
-- Every server looks for instances that have to answer a question each second, and almost always there are none.
CREATE INDEX instances_asked ON instances (id) WHERE asked_at IS NOT NULL;

CREATE TABLE jobs (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    module_id text NOT NULL REFERENCES modules (id),
    number bigint NOT NULL,
    type text NOT NULL CHECK (type IN ('PLAN', 'APPLY', 'DESTROY')),
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
    needs_approval boolean NOT NULL DEFAULT false,
    approval_seconds bigint NOT NULL DEFAULT 604800,
    -- The attempt whose kept plan the job waits for a decision about, or goes on with.
    plan_attempt bigint,
    interrupted text NOT NULL DEFAULT 'ask' CHECK (interrupted IN ('ask', 'retry')),
    -- A plan of destroying everything, which changes nothing.
    is_destroy_plan boolean NOT NULL DEFAULT false CHECK (NOT is_destroy_plan OR type = 'PLAN'),
    -- Whether the job was asked to run another source than its module's: when it is run again, it keeps that source.
    has_own_source boolean NOT NULL DEFAULT false,
    -- The claim writes the path of the module, which never changes while the module exists. The collation makes the order the same in
    -- every database.
    module_path text COLLATE "C",
    -- A job whose source is a git repository knows its commit, what led to it, and whether a tag has moved since an earlier job.
    source_commit text NOT NULL DEFAULT '',
    source_revision text NOT NULL DEFAULT '',
    source_moved_from text NOT NULL DEFAULT '',
    pinned_engine_version text NOT NULL DEFAULT '',
    -- The job of another module whose change of an output caused a job.
    cause_job_id text,
    group_run_id text,
    limits text NOT NULL DEFAULT '{}',
    -- What a job lacked when it failed, and a step that is repeated.
    failure_kind text NOT NULL DEFAULT '',
    retry text,
    -- Who let a job that waited for approval plan again with other imports.
    imports_chosen_by text NOT NULL DEFAULT '',
    -- Who let a job plan again. They count as people who queued it.
    replanned_by text NOT NULL DEFAULT '[]',
    cloud text NOT NULL DEFAULT '{}',
    dispatcher text NOT NULL DEFAULT '{}',
    is_fresh boolean NOT NULL DEFAULT false,
    has_lost_inputs boolean NOT NULL DEFAULT false,
    -- The PLAN job whose plan a job applies, and who queued that one.
    plan_job_id text,
    plan_queued_by text NOT NULL DEFAULT '',
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
CREATE INDEX jobs_idempotency_age ON jobs (created_at) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_queued ON jobs (id, attempt, plan_attempt) WHERE status = 'QUEUED';
CREATE INDEX jobs_of_organization ON jobs (organization_id, id);
-- Partial, so that a job enters the first once, when it ends, and the second is small.
CREATE INDEX jobs_ended_of_module ON jobs (module_id, status, id)
    WHERE status IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED');
CREATE INDEX jobs_open_of_module ON jobs (module_id, id)
    WHERE status NOT IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED');
-- With the status and the module, SQLite prefers it to the index of all jobs.
CREATE INDEX jobs_open ON jobs (organization_id, id, status, module_id)
    WHERE status NOT IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED');
CREATE INDEX jobs_ended ON jobs (organization_id, status, id)
    WHERE status IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED');
CREATE INDEX jobs_of_runner ON jobs (runner_id) WHERE status IN ('CLAIMED', 'PROCESSING');
CREATE INDEX jobs_archive ON jobs (substr(source, 33, 36));
-- The running jobs in the order of the tree: those below a group are a range of this index, however many others run. It contains the
-- status, because SQLite otherwise reads the row of each job to check it.
CREATE INDEX jobs_running ON jobs (organization_id, module_path, status) WHERE status IN ('CLAIMED', 'PROCESSING');
-- The queued jobs of each module in the order in which they run. Every claim looks for the first one of its module.
CREATE INDEX jobs_queue_of_module ON jobs (module_id, priority DESC, number, id) WHERE status = 'QUEUED';
-- Finds the changes of a module that succeeded after a time: whether its outputs are still those of its last change.
CREATE INDEX jobs_changes_of_module ON jobs (module_id, finished_at) WHERE status = 'SUCCEEDED' AND type <> 'PLAN';

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
    -- When the executor of an attempt was last heard, or its runner while it named the attempt, by whichever server.
    heard_at double precision,
    -- When it was declared lost; cleared when it is heard again. The lease runs from here.
    lost_at double precision,
    -- It was fenced after its `begin`, and nobody has said that it is gone: nothing on its module mutates before a person has looked.
    is_in_doubt boolean NOT NULL DEFAULT false,
    -- A hash of the engine, the inputs and the environment that it was granted with: a plan is resumed only if they have not changed since.
    inputs_sha256 text NOT NULL DEFAULT '',
    -- The server that the executor is connected to, and when that server last said so.
    executor_server_id text,
    executor_heard_at double precision,
    -- Whether the engine is known to have ended its mutating command by itself; whether the attempt's last event has arrived.
    is_change_ended boolean NOT NULL DEFAULT false,
    has_result boolean NOT NULL DEFAULT false,
    -- Whether the last state of the attempt that arrived cannot be read: what it changed is not accounted for then.
    has_unreadable_state boolean NOT NULL DEFAULT false,
    -- Events up to this one are in objects. Chunks of them that are still there are not read any more, and are deleted.
    log_moved bigint NOT NULL DEFAULT 0,
    -- Whether there may be chunks of this attempt. Every delivery sets it; moving the log clears it.
    has_log_chunks boolean NOT NULL DEFAULT true,
    -- When retention removed the log up to `log_moved`, and after how many days it does so.
    log_removed_at double precision,
    log_removed_days double precision,
    -- Whether an attempt may have left the lock of its module's own backend behind: its engine was killed, or its end is not known.
    may_hold_lock boolean NOT NULL DEFAULT false,
    is_log_searched boolean NOT NULL DEFAULT false,
    -- Whether the whole log of an attempt has arrived, and when the last event did. What an attempt that was cut short has made is read
    -- from its log, so the list may be incomplete if the log is. `plan` is the plan that the attempt was to carry out, kept when its job
    -- is queued again and makes another one.
    received_at double precision,
    is_delivered boolean NOT NULL DEFAULT false,
    is_output_missing boolean NOT NULL DEFAULT false,
    plan text,
    may_have_begun boolean NOT NULL DEFAULT false,
    -- How many bytes of log records of an attempt are stored, before compression, for the limit of one attempt's log.
    log_bytes bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (job_id, number),
    CHECK ((ended_at IS NULL) = (outcome IS NULL)),
    CHECK ((begun_at IS NULL) = (begun_state_version IS NULL))
);
CREATE UNIQUE INDEX attempts_hub ON attempts (hub_sha256);
CREATE UNIQUE INDEX attempts_api ON attempts (api_sha256);
CREATE INDEX attempts_open ON attempts (job_id) WHERE ended_at IS NULL;
CREATE INDEX attempts_in_doubt ON attempts (job_id) WHERE is_in_doubt;
CREATE INDEX attempts_of_instance ON attempts (instance_id);
CREATE INDEX attempts_of_runner ON attempts (runner_id);
CREATE INDEX attempts_log_to_move ON attempts (ended_at) WHERE has_log_chunks AND ended_at IS NOT NULL;
CREATE INDEX attempts_may_hold_lock ON attempts (job_id) WHERE may_hold_lock;
CREATE INDEX attempts_to_search ON attempts (job_id, number)
    WHERE begun_at IS NOT NULL AND NOT is_change_ended AND (ended_at IS NOT NULL OR lost_at IS NOT NULL) AND NOT is_log_searched;

CREATE TABLE steps (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    name text NOT NULL,
    status text NOT NULL CHECK (status IN ('RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED', 'SKIPPED')),
    started_at double precision,
    finished_at double precision,
    exit_code bigint,
    -- The number of the job whose result of this step was used (warm workspaces).
    kept_from bigint,
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
    -- How many resource instances a state holds, where the executor counted them.
    resources bigint,
    -- Why the state cannot be read; empty where it can.
    problem text NOT NULL DEFAULT '',
    -- Who brought a state that no job wrote: the id of a user or service account, and '' for every state of a job.
    brought_by text NOT NULL DEFAULT '',
    CHECK ((content IS NULL) <> (object IS NULL)),
    CONSTRAINT states_event UNIQUE (job_id, attempt, event),
    CHECK ((version IS NOT NULL) >= (status IN ('current', 'superseded')))
);
CREATE UNIQUE INDEX states_current ON states (module_id) WHERE status = 'current';
CREATE UNIQUE INDEX states_version ON states (module_id, version) WHERE version IS NOT NULL;
CREATE INDEX states_quarantine ON states (module_id) WHERE status = 'quarantined';
CREATE INDEX states_of_module ON states (module_id, id);

-- One row for each job that read its outputs; `content` is encrypted where any of them is sensitive.
CREATE TABLE outputs (
    job_id text PRIMARY KEY REFERENCES jobs (id),
    module_id text NOT NULL REFERENCES modules (id),
    sha256 text NOT NULL,
    content bytea NOT NULL,
    created_at double precision NOT NULL,
    -- Where the content is, if it is not in the row.
    object text
);
CREATE INDEX outputs_of_module ON outputs (module_id, created_at);

-- What the server keeps about itself: checks of its keys, and the like.
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
    -- A key is published before it signs. Until then it is not active, and its time of retirement is far away.
    signs_from double precision,
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
    last_login_at double precision,
    CONSTRAINT users_name UNIQUE (name)
);
CREATE INDEX users_of_organization ON users (organization_id, id);

CREATE TABLE one_time_links (
    token_sha256 text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    -- Who made a one-time link. It is valid only while this principal may give somebody the account.
    created_by text NOT NULL DEFAULT ''
);
CREATE INDEX one_time_links_of_user ON one_time_links (user_id);

CREATE TABLE sessions (
    id text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    token_sha256 text NOT NULL,
    created_at double precision NOT NULL,
    seen_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    address text,
    -- The organization that the session works in.
    organization_id text,
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
    -- A token that the server leaves in its data directory for the command line on its own machine.
    is_local boolean NOT NULL DEFAULT false,
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
    is_disabled boolean NOT NULL DEFAULT false,
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
    expires_at double precision,
    CONSTRAINT role_bindings_place UNIQUE (principal_id, organization_id, place_kind, path),
    CHECK ((place_kind = 'group') = (group_id IS NOT NULL)),
    CHECK ((place_kind = 'module') = (module_id IS NOT NULL))
);
CREATE INDEX role_bindings_of_organization ON role_bindings (organization_id, id);
CREATE INDEX role_bindings_of_group ON role_bindings (group_id, id) WHERE group_id IS NOT NULL;
CREATE INDEX role_bindings_of_module ON role_bindings (module_id, id) WHERE module_id IS NOT NULL;
CREATE INDEX role_bindings_expiry ON role_bindings (expires_at) WHERE expires_at IS NOT NULL;
-- The users of other organizations who have a role in an organization, in the order of their ids, for the list of users.
CREATE INDEX role_bindings_of_members ON role_bindings (organization_id, principal_kind, principal_id);

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
    details text NOT NULL,
    -- Where a change comes from: the client's address and the credential. NULL: the server itself.
    address text,
    credential_id text,
    -- The place of the tree that an entry of the audit log is about, and the first name of its path.
    path text,
    stack text
);
CREATE INDEX audit_of_organization ON audit (organization_id, id);
CREATE INDEX audit_of_target ON audit (target_id, id);
CREATE INDEX audit_by_time ON audit (created_at);
-- Each index returns the entries that a filter of the audit log selects in the order of their ids.
CREATE INDEX audit_of_actor ON audit (organization_id, actor_id, id);
CREATE INDEX audit_of_action ON audit (organization_id, action, id);
CREATE INDEX audit_at_path ON audit (organization_id, path, id) WHERE path IS NOT NULL;
CREATE INDEX audit_in_stack ON audit (organization_id, stack, id) WHERE stack IS NOT NULL;
-- People filter the audit log by the name of who made a change.
CREATE INDEX audit_of_actor_name ON audit (organization_id, actor_name, id);

-- A plan and the workspace that it was made in, encrypted under its attempt's key. It is decided about once, and applied at most once.
CREATE TABLE plans (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    state_version bigint NOT NULL,
    inputs_sha256 text NOT NULL,
    path text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL,
    made_at double precision NOT NULL,
    decide_by double precision NOT NULL,
    decision text CHECK (decision IN ('approved', 'declined')),
    decided_by text NOT NULL DEFAULT '',
    decided_at double precision,
    reason text NOT NULL DEFAULT '',
    applied_by bigint,
    is_kept boolean NOT NULL DEFAULT true,
    -- The attempts in doubt that the approver of a plan has looked at. An approval does not apply to any other doubt.
    doubts text NOT NULL DEFAULT '[]',
    -- Whether the plan may have to expire, which plans of jobs that have ended do not.
    is_open boolean NOT NULL DEFAULT true,
    -- Why a person has to look at a plan.
    why text NOT NULL DEFAULT '',
    -- Who has approved a plan until now, with what each of them had looked at.
    approvals text NOT NULL DEFAULT '[]',
    -- The hash of a saved plan itself, so that only the plan that was described and approved is applied.
    plan_sha256 text NOT NULL DEFAULT '',
    -- A plan that a PLAN job has kept is applied by another job, which has a copy of its row with attempt 0 (ADR 0073).
    -- The attempt that made the plan: its key and its runner are those of the plan, and the stored object is named after it.
    made_job_id text NOT NULL DEFAULT '',
    made_attempt bigint NOT NULL DEFAULT 0,
    -- The job that applies the plan of a PLAN job; empty if there is none.
    taken_by text NOT NULL DEFAULT '',
    PRIMARY KEY (job_id, attempt),
    CHECK ((decision IS NULL) = (decided_at IS NULL)),
    CHECK (applied_by IS NULL OR decision = 'approved')
);
CREATE INDEX plans_kept ON plans (decide_by) WHERE is_kept;
CREATE INDEX plans_open ON plans (decide_by) WHERE is_open AND decision IS NULL;
CREATE INDEX plans_made ON plans (made_job_id, made_attempt);

-- Removed runners and their instances: what the jobs that they had still call them by, and what a process of one is told that still
-- comes with the right token.
CREATE TABLE removed (
    id text PRIMARY KEY,
    name text NOT NULL,
    worker_token_sha256 text,
    removed_at double precision NOT NULL
);
CREATE INDEX removed_worker_token ON removed (worker_token_sha256) WHERE worker_token_sha256 IS NOT NULL;

-- Bodies that arrive in parts. The parts are objects (parts/<id>/<index>); the row says what they are parts of.
CREATE TABLE uploads (
    id text PRIMARY KEY,
    -- The attempt or the person that may add to it and use it.
    owner text NOT NULL,
    target text NOT NULL,
    sha256 text NOT NULL,
    size bigint NOT NULL CHECK (size > 0),
    -- The object that was made of it; a request that is repeated after that gets the same answer.
    result text,
    used_at double precision NOT NULL,
    UNIQUE (owner, target, sha256, size)
);
CREATE INDEX uploads_by_use ON uploads (used_at);

-- How far the time in use is ahead of the wall clock (see ADR 0014), and the wall clock's time when that was stored.
CREATE TABLE clock (
    name text PRIMARY KEY,
    correction double precision NOT NULL,
    stored_at double precision NOT NULL
);

-- The part of a log that is in one object. `size` counts the text, `stored_bytes` the object; `blocks` is the index into it.
CREATE TABLE log_objects (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    first_line bigint NOT NULL,
    lines bigint NOT NULL,
    size bigint NOT NULL,
    stored_bytes bigint NOT NULL,
    object text NOT NULL,
    blocks bytea NOT NULL,
    created_at double precision NOT NULL,
    PRIMARY KEY (job_id, attempt, first)
);

-- Objects that no row names any more, and when the row that named them was deleted. They are deleted some time later, so that a
-- backup that copies the database first and the objects after it still finds them.
CREATE TABLE object_deletions (
    name text PRIMARY KEY,
    requested_at double precision NOT NULL
);
CREATE INDEX object_deletions_by_time ON object_deletions (requested_at);

-- When each chore of retention last came to its end, and what it removed (JSON: kind → count and bytes).
CREATE TABLE retention_runs (
    name text PRIMARY KEY,
    finished_at double precision NOT NULL,
    removed text NOT NULL
);

-- The versions of engines that each instance has, and which of them a wanted range of versions includes.
CREATE TABLE instance_engines (
    instance_id text NOT NULL REFERENCES instances (id) ON DELETE CASCADE,
    engine text NOT NULL,
    version text NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (instance_id, engine, version)
);

CREATE TABLE engine_version_ranges (
    engine text NOT NULL,
    wanted text NOT NULL,
    low bigint NOT NULL,
    high bigint NOT NULL,
    version text,
    installs text,
    PRIMARY KEY (engine, wanted, low)
);

-- Inputs at any place of the tree: one row for each version of each input. A module's jobs get those of the module, of its group
-- and of the groups above it; the nearest one of a name applies.
CREATE TABLE inputs (
    id text PRIMARY KEY,
    place_id text NOT NULL,
    target text NOT NULL CHECK (target IN ('variable', 'environment', 'file')),
    name text NOT NULL,
    version bigint NOT NULL CHECK (version > 0),
    kind text NOT NULL CHECK (kind IN ('literal', 'secret', 'output', 'definition')),
    sealed bytea,
    size bigint NOT NULL DEFAULT 0,
    is_current boolean NOT NULL DEFAULT true,
    set_by text NOT NULL,
    set_by_name text NOT NULL,
    set_at double precision NOT NULL,
    -- An input of a module that is the output of another module. The claim and the scheduler look for those without outputs.
    source_module_id text,
    source_output text,
    -- Who has ended an input that is an output of another module, so that it is not given any more; null if nobody has. The one who set it
    -- is in `set_by`, and must still be allowed to read the state of the other module.
    ended_by_name text,
    UNIQUE (place_id, target, name, version)
);
CREATE UNIQUE INDEX inputs_current ON inputs (place_id, target, name) WHERE is_current;
CREATE INDEX inputs_of_outputs ON inputs (place_id, source_module_id) WHERE is_current AND source_module_id IS NOT NULL;
-- Which modules use an output of a module: the list of its dependents, and what its apply concerns.
CREATE INDEX inputs_by_source ON inputs (source_module_id, id) WHERE is_current AND source_module_id IS NOT NULL;

-- What a job was given for itself when it was created, and what each attempt was given, by name and origin and without values.
CREATE TABLE job_inputs (
    job_id text PRIMARY KEY REFERENCES jobs (id),
    sealed bytea NOT NULL
);

CREATE TABLE attempt_inputs (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    used text NOT NULL,
    PRIMARY KEY (job_id, attempt)
);

-- What a group or a module adds to a step of the jobs in and below it: hooks, and flags of the engine.
CREATE TABLE step_settings (
    place_id text NOT NULL,
    step text NOT NULL,
    organization_id text NOT NULL REFERENCES organizations (id),
    path text NOT NULL,
    before text,
    after text,
    flags text NOT NULL,
    changed_by text NOT NULL,
    changed_at double precision NOT NULL,
    PRIMARY KEY (place_id, step)
);
CREATE INDEX step_settings_of_organization ON step_settings (organization_id, path);

-- One row for each module that has to be applied because an output that it uses has changed. It is written in one transaction with
-- the outputs, and deleted in one transaction with the creation of the job, so that neither is lost or repeated if a server ends in
-- between.
CREATE TABLE triggered_modules (
    module_id text PRIMARY KEY,
    cause_job_id text NOT NULL,
    changed_at double precision NOT NULL
);

-- The diff of the last plan of each job. Small ones are in their row, the others in an object; both are encrypted.
CREATE TABLE plan_diffs (
    job_id text PRIMARY KEY REFERENCES jobs (id),
    attempt bigint NOT NULL,
    module_id text NOT NULL,
    sha256 text NOT NULL,
    content bytea,
    object text,
    created_at double precision NOT NULL,
    CHECK ((content IS NULL) <> (object IS NULL))
);

-- What the logs of attempts that were cut short report as created, changed or destroyed. A log is searched once; if more of it
-- arrives later, it is searched again.
CREATE TABLE lost_resources (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    number bigint NOT NULL,
    address text NOT NULL,
    action text NOT NULL CHECK (action IN ('created', 'changed', 'destroyed', 'creating', 'changing', 'destroying')),
    resource_id text NOT NULL,
    replaced_id text NOT NULL,
    event bigint NOT NULL,
    changed_at double precision NOT NULL,
    PRIMARY KEY (job_id, attempt, number)
);

-- Everybody who has ever made a secret of a service account, and so may act as it. The row outlives the secret and the account:
-- an approval, or a job, of the account still counts as one of these people.
CREATE TABLE service_account_holders (
    service_account_id text NOT NULL,
    holder_id text NOT NULL,
    organization_id text NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    PRIMARY KEY (service_account_id, holder_id)
);
CREATE INDEX service_account_holders_of_organization ON service_account_holders (organization_id);

-- Why a changed output could not queue the job of a module that is applied by itself. A later job of the module ends it.
CREATE TABLE trigger_problems (
    module_id text PRIMARY KEY,
    cause_job_id text NOT NULL,
    message text NOT NULL,
    created_at double precision NOT NULL
);

-- Which tokens of other issuers stand for a service account. The slot limits an account to ten of them.
CREATE TABLE trust_policies (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    service_account_id text NOT NULL REFERENCES service_accounts (id) ON DELETE CASCADE,
    slot bigint NOT NULL CHECK (slot BETWEEN 1 AND 10),
    issuer text NOT NULL,
    audience text NOT NULL,
    claims text NOT NULL,
    is_reusable boolean NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision,
    last_used_at double precision,
    CONSTRAINT trust_policies_slot UNIQUE (service_account_id, slot)
);
CREATE INDEX trust_policies_expiry ON trust_policies (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX trust_policies_organization ON trust_policies (organization_id);

-- The tokens of other issuers that were exchanged and have not expired, so that none is exchanged twice.
CREATE TABLE exchanged_tokens (
    organization_id text NOT NULL,
    sha256 text NOT NULL,
    expires_at double precision NOT NULL,
    PRIMARY KEY (organization_id, sha256)
);
CREATE INDEX exchanged_tokens_expiry ON exchanged_tokens (expires_at);

-- What may be the work of a thief of a runner's credentials. An alert counts its repetitions until a person acknowledges it.
CREATE TABLE runner_alerts (
    id text PRIMARY KEY,
    runner_id text NOT NULL REFERENCES runners (id) ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('moved', 'taken_over', 'refused', 'ended_token')),
    instance text NOT NULL,
    address text,
    former_address text,
    former_at double precision,
    is_other_machine boolean NOT NULL,
    count bigint NOT NULL CHECK (count > 0),
    first_at double precision NOT NULL,
    last_at double precision NOT NULL,
    audited_at double precision NOT NULL,
    acknowledged_at double precision,
    acknowledged_by text,
    CONSTRAINT runner_alerts_acknowledged CHECK ((acknowledged_at IS NULL) = (acknowledged_by IS NULL))
);
CREATE UNIQUE INDEX runner_alerts_open ON runner_alerts (runner_id, kind, instance) WHERE acknowledged_at IS NULL;
CREATE INDEX runner_alerts_runner ON runner_alerts (runner_id, last_at);
CREATE INDEX runner_alerts_last ON runner_alerts (last_at);

-- The worker tokens that runners have replaced by themselves: their use is a sign of a copy.
CREATE TABLE ended_worker_tokens (
    sha256 text PRIMARY KEY,
    runner_id text NOT NULL REFERENCES runners (id) ON DELETE CASCADE,
    ended_at double precision NOT NULL
);
CREATE INDEX ended_worker_tokens_runner ON ended_worker_tokens (runner_id);
CREATE INDEX ended_worker_tokens_ended ON ended_worker_tokens (ended_at);

-- What an executor is started with, where only its ticket can be passed on. The row stays as long as its attempt, because it
-- says whether the start was ever fetched; the content is removed as soon as nobody needs it.
CREATE TABLE executor_starts (
    job_id text NOT NULL,
    attempt bigint NOT NULL,
    ticket_sha256 text,
    content bytea,
    claim_sha256 text,
    expires_at double precision NOT NULL,
    fetched_at double precision,
    revoked_at double precision,
    reported_at double precision,
    PRIMARY KEY (job_id, attempt),
    FOREIGN KEY (job_id, attempt) REFERENCES attempts (job_id, number) ON DELETE CASCADE,
    CONSTRAINT executor_starts_ticket UNIQUE (ticket_sha256),
    CONSTRAINT executor_starts_claim CHECK ((claim_sha256 IS NULL) = (fetched_at IS NULL)),
    CONSTRAINT executor_starts_revoked CHECK (revoked_at IS NULL OR content IS NULL)
);
CREATE INDEX executor_starts_expiry ON executor_starts (expires_at) WHERE content IS NOT NULL;

-- Credentials of runners that are valid for one job. `instance_id` is the instance that has claimed it: no other one may use the token then.
CREATE TABLE once_tokens (
    id text PRIMARY KEY,
    sha256 text NOT NULL,
    runner_id text NOT NULL REFERENCES runners (id) ON DELETE CASCADE,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    claimed_at double precision,
    job_id text,
    attempt bigint,
    instance_id text,
    revoked_at double precision,
    CONSTRAINT once_tokens_sha256 UNIQUE (sha256),
    CONSTRAINT once_tokens_attempt UNIQUE (job_id, attempt),
    CONSTRAINT once_tokens_claim CHECK (
        (claimed_at IS NULL) = (job_id IS NULL) AND (claimed_at IS NULL) = (attempt IS NULL) AND (claimed_at IS NULL) = (instance_id IS NULL))
);
CREATE INDEX once_tokens_runner ON once_tokens (runner_id);
CREATE INDEX once_tokens_expiry ON once_tokens (expires_at);

-- How a server notices that its database was set back, and what it holds until a person has released it (ADR 0071).
CREATE TABLE history (
    id text PRIMARY KEY,
    at double precision NOT NULL
);
CREATE INDEX history_at ON history (at);

CREATE TABLE holds (
    id text PRIMARY KEY,
    reason text NOT NULL,
    is_set_back boolean NOT NULL,
    set_back_to double precision,
    started_at double precision NOT NULL,
    is_open boolean NOT NULL DEFAULT true,
    released_at double precision,
    released_by text,
    CHECK (is_open = (released_at IS NULL)),
    CHECK (is_open = (released_by IS NULL))
);
CREATE UNIQUE INDEX holds_open ON holds (is_open) WHERE is_open;

CREATE TABLE held_modules (
    module_id text NOT NULL,
    hold_id text NOT NULL REFERENCES holds (id),
    is_held boolean NOT NULL,
    is_in_doubt boolean NOT NULL,
    evidence text NOT NULL DEFAULT '',
    released_at double precision,
    released_by text,
    PRIMARY KEY (module_id, hold_id)
);
CREATE INDEX held_modules_of_hold ON held_modules (hold_id, module_id);

-- Runs of whole groups, and the modules of each of them.
CREATE TABLE group_runs (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    group_id text NOT NULL,
    path text NOT NULL,
    type text NOT NULL CHECK (type IN ('PLAN', 'APPLY', 'DESTROY')),
    status text NOT NULL CHECK (status IN ('RUNNING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
    started_by text NOT NULL,
    started_by_name text NOT NULL,
    created_at double precision NOT NULL,
    finished_at double precision,
    CHECK ((finished_at IS NULL) = (status = 'RUNNING'))
);
CREATE UNIQUE INDEX group_runs_running ON group_runs (group_id) WHERE status = 'RUNNING';
CREATE INDEX group_runs_of_group ON group_runs (group_id, id);
CREATE INDEX group_runs_open ON group_runs (organization_id, id) WHERE status = 'RUNNING';

CREATE TABLE group_run_modules (
    run_id text NOT NULL REFERENCES group_runs (id),
    module_id text NOT NULL,
    path text NOT NULL,
    position bigint NOT NULL,
    waits_for text NOT NULL,
    status text NOT NULL CHECK (status IN ('WAITING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'SKIPPED', 'CANCELED')),
    job_id text,
    message text NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, module_id),
    CHECK (status <> 'RUNNING' OR job_id IS NOT NULL)
);
CREATE INDEX group_run_modules_open ON group_run_modules (module_id) WHERE status IN ('WAITING', 'RUNNING');

-- What was deployed for each cloud-hosted runner, and the instances that the cloud was asked to start for it.
CREATE TABLE cloud_deployments (
    runner_id text PRIMARY KEY REFERENCES runners (id) ON DELETE CASCADE,
    identity_id text NOT NULL,
    settings text NOT NULL,
    facts text NOT NULL DEFAULT '{}',
    status text NOT NULL CHECK (status IN ('new', 'deployed', 'failed', 'removing')),
    epoch bigint NOT NULL DEFAULT 0,
    refusal_code text NOT NULL DEFAULT '',
    refusal_words text NOT NULL DEFAULT '',
    refusals bigint NOT NULL DEFAULT 0,
    refused_at double precision,
    retry_at double precision,
    start_seconds text NOT NULL DEFAULT '[]',
    woken_ahead_at double precision,
    -- The version of Terracrew that the last deployment gave the instances of a cloud-hosted runner; empty if it is not known.
    version text NOT NULL DEFAULT '',
    -- Which deployment it is; instances that were started with an earlier one have another number (ADR 0081).
    revision bigint NOT NULL DEFAULT 0,
    image text NOT NULL DEFAULT '',
    CHECK ((refused_at IS NULL) = (refusals = 0)),
    CHECK (retry_at IS NULL OR refused_at IS NOT NULL)
);
CREATE INDEX cloud_deployments_of_identity ON cloud_deployments (identity_id);
CREATE INDEX cloud_deployments_retry ON cloud_deployments (retry_at) WHERE retry_at IS NOT NULL;

CREATE TABLE cloud_instances (
    id text PRIMARY KEY,
    runner_id text NOT NULL REFERENCES cloud_deployments (runner_id) ON DELETE CASCADE,
    name text NOT NULL,
    epoch bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('wanted', 'starting', 'running', 'leaving', 'ended')),
    reference text NOT NULL DEFAULT '',
    words text NOT NULL DEFAULT '',
    wanted_at double precision NOT NULL,
    asked_at double precision,
    started_at double precision,
    hello_at double precision,
    watched_at double precision,
    ended_at double precision,
    end_reason text NOT NULL DEFAULT '',
    revision bigint NOT NULL DEFAULT 0,
    CONSTRAINT cloud_instances_name UNIQUE (runner_id, name),
    CHECK ((ended_at IS NULL) = (status <> 'ended'))
);
CREATE INDEX cloud_instances_live ON cloud_instances (runner_id, id) WHERE status <> 'ended';
CREATE INDEX cloud_instances_ended ON cloud_instances (runner_id, ended_at) WHERE status = 'ended';

-- Jobs of the fleet: they deploy, update and remove cloud-hosted runners and test cloud identities (ADR 0077).
CREATE TABLE fleet_jobs (
    id text PRIMARY KEY,
    organization_id text NOT NULL,
    group_id text NOT NULL,
    number bigint NOT NULL,
    type text NOT NULL CHECK (type IN ('DEPLOY_WORKER', 'UPDATE_WORKER', 'DESTROY_WORKER', 'CONNECTION_TEST')),
    status text NOT NULL CHECK (status IN ('QUEUED', 'CLAIMED', 'PROCESSING', 'SUCCEEDED', 'FAILED', 'CANCELED')),
    attempt bigint NOT NULL CHECK (attempt > 0),
    target_id text NOT NULL,
    target_name text NOT NULL,
    runner_id text,
    identity_id text NOT NULL,
    spec text NOT NULL,
    server_id text,
    lease_until double precision,
    due_at double precision NOT NULL,
    losses text NOT NULL,
    error text NOT NULL,
    canceled_at double precision,
    canceled_by text NOT NULL,
    is_unwinding boolean NOT NULL,
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    claimed_at double precision,
    started_at double precision,
    finished_at double precision,
    UNIQUE (organization_id, number),
    CHECK ((status IN ('CLAIMED', 'PROCESSING')) = (server_id IS NOT NULL)),
    CHECK ((server_id IS NULL) = (lease_until IS NULL)),
    CHECK ((status IN ('SUCCEEDED', 'FAILED', 'CANCELED')) = (finished_at IS NOT NULL)),
    CHECK (status <> 'PROCESSING' OR started_at IS NOT NULL)
);
CREATE UNIQUE INDEX fleet_jobs_active ON fleet_jobs (target_id) WHERE status IN ('CLAIMED', 'PROCESSING');
CREATE INDEX fleet_jobs_open ON fleet_jobs (id) WHERE finished_at IS NULL;
CREATE INDEX fleet_jobs_of_target ON fleet_jobs (target_id, id);
CREATE INDEX fleet_jobs_of_organization ON fleet_jobs (organization_id, id);
CREATE INDEX fleet_jobs_ended ON fleet_jobs (finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE fleet_steps (
    job_id text NOT NULL REFERENCES fleet_jobs (id) ON DELETE CASCADE,
    attempt bigint NOT NULL,
    name text NOT NULL,
    position bigint NOT NULL,
    words text NOT NULL,
    status text NOT NULL CHECK (status IN ('pending', 'running', 'done', 'failed')),
    reference text NOT NULL,
    detail text NOT NULL,
    remedy text NOT NULL,
    started_at double precision,
    finished_at double precision,
    PRIMARY KEY (job_id, attempt, name),
    CHECK ((status = 'pending') = (started_at IS NULL)),
    CHECK ((status IN ('done', 'failed')) = (finished_at IS NOT NULL))
);

CREATE TABLE fleet_log (
    job_id text NOT NULL REFERENCES fleet_jobs (id) ON DELETE CASCADE,
    attempt bigint NOT NULL,
    number bigint NOT NULL,
    at double precision NOT NULL,
    text text NOT NULL,
    PRIMARY KEY (job_id, attempt, number)
);

-- Ways into cloud accounts in which runners are started (ADR 0077). No credential of a cloud is stored: `external_id` and `subject` are
-- names that the account's own policies compare. Both are random and made here, so no two identities ever have the same.
CREATE TABLE cloud_identities (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    group_id text NOT NULL REFERENCES groups (id),
    name text NOT NULL,
    description text NOT NULL DEFAULT '',
    kind text NOT NULL CHECK (kind IN ('aws', 'kubernetes')),
    settings text NOT NULL,
    external_id text NOT NULL,
    subject text NOT NULL,
    audience text NOT NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL,
    -- What was found in the account when somebody last looked.
    found text,
    found_at double precision,
    CONSTRAINT cloud_identities_name UNIQUE (group_id, name),
    CONSTRAINT cloud_identities_external_id UNIQUE (external_id),
    CONSTRAINT cloud_identities_subject UNIQUE (subject),
    CHECK ((found IS NULL) = (found_at IS NULL))
);
CREATE INDEX cloud_identities_of_organization ON cloud_identities (organization_id, id);

-- Published versions of Terracrew, which the whole server knows (ADR 0079). `base_version` is the version without build metadata, so
-- that two releases are never equal in the order of versions. A row exists only once all files of the release are stored.
CREATE TABLE releases (
    id text PRIMARY KEY,
    version text NOT NULL,
    base_version text NOT NULL,
    notes text NOT NULL,
    released_at double precision NOT NULL,
    commit_id text NOT NULL,
    link text NOT NULL,
    is_breaking boolean NOT NULL,
    breaking_words text NOT NULL,
    min_server_version text NOT NULL,
    published_by text NOT NULL,
    published_by_name text NOT NULL,
    published_at double precision NOT NULL,
    withdrawn_at double precision,
    withdrawn_by text NOT NULL,
    withdrawn_by_name text NOT NULL,
    withdrawn_reason text NOT NULL,
    CONSTRAINT releases_base_version UNIQUE (base_version),
    CONSTRAINT releases_breaking CHECK (is_breaking OR breaking_words = ''),
    CONSTRAINT releases_withdrawn CHECK ((withdrawn_at IS NULL) = (withdrawn_reason = ''))
);

-- The files of a release (with the object that has the content), and its images (with a reference and no content).
CREATE TABLE release_artifacts (
    release_id text NOT NULL REFERENCES releases (id) ON DELETE CASCADE,
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('wheel', 'sdist', 'image', 'sbom', 'checksums')),
    size_bytes bigint NOT NULL,
    sha256 text NOT NULL,
    signature text NOT NULL,
    reference text NOT NULL,
    object_name text NOT NULL,
    PRIMARY KEY (release_id, name),
    CONSTRAINT release_artifacts_content CHECK ((kind = 'image') = (object_name = '') AND (kind = 'image') = (reference <> ''))
);
CREATE INDEX release_artifacts_object ON release_artifacts (object_name);

-- Tokens with which releases can be published, and nothing else can be done.
CREATE TABLE release_tokens (
    id text PRIMARY KEY,
    name text NOT NULL,
    token_sha256 text NOT NULL,
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    last_used_at double precision,
    CONSTRAINT release_tokens_name UNIQUE (name),
    CONSTRAINT release_tokens_token UNIQUE (token_sha256)
);

-- Updates that instances were asked for by a fleet job, and how far each is.
CREATE TABLE instance_updates (
    id text PRIMARY KEY,
    instance_id text NOT NULL REFERENCES instances (id) ON DELETE CASCADE,
    runner_id text NOT NULL REFERENCES runners (id) ON DELETE CASCADE,
    job_id text NOT NULL REFERENCES fleet_jobs (id) ON DELETE CASCADE,
    version text NOT NULL,
    status text NOT NULL CHECK (status IN ('asked', 'running', 'done', 'failed', 'withdrawn')),
    step text NOT NULL,
    words text NOT NULL,
    asked_at double precision NOT NULL,
    changed_at double precision NOT NULL,
    CONSTRAINT instance_updates_of_job UNIQUE (job_id, instance_id)
);
CREATE UNIQUE INDEX instance_updates_open ON instance_updates (instance_id) WHERE status IN ('asked', 'running');
CREATE INDEX instance_updates_of_instance ON instance_updates (instance_id);
CREATE INDEX instance_updates_of_runner ON instance_updates (runner_id);

-- Roll-outs: runners of an organization get a release, one first and then in waves (ADR 0081).
CREATE TABLE rollouts (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    version text NOT NULL,
    status text NOT NULL CHECK (status IN ('rolling', 'paused', 'stopped', 'done')),
    stop_reason text NOT NULL,
    stop_runner_id text,
    is_automatic boolean NOT NULL,
    started_by text NOT NULL,
    started_by_name text NOT NULL,
    started_at double precision NOT NULL,
    ended_at double precision,
    CHECK ((status IN ('stopped', 'done')) = (ended_at IS NOT NULL)),
    CHECK ((status = 'stopped') = (stop_reason <> '')),
    CHECK (stop_runner_id IS NULL OR status = 'stopped')
);
CREATE UNIQUE INDEX rollouts_open ON rollouts (organization_id) WHERE ended_at IS NULL;
CREATE INDEX rollouts_of_organization ON rollouts (organization_id, id);

CREATE TABLE rollout_runners (
    rollout_id text NOT NULL REFERENCES rollouts (id) ON DELETE CASCADE,
    runner_id text NOT NULL,
    group_id text NOT NULL,
    path text NOT NULL,
    wave bigint CHECK (wave >= 0),
    from_version text NOT NULL,
    status text NOT NULL CHECK (status IN ('waiting', 'updating', 'updated', 'failed', 'by_hand', 'skipped')),
    job_id text,
    job_number bigint,
    words text NOT NULL,
    command text NOT NULL,
    changed_at double precision NOT NULL,
    PRIMARY KEY (rollout_id, runner_id),
    CHECK (wave IS NOT NULL OR status = 'by_hand'),
    CHECK (status NOT IN ('updating', 'updated') OR job_id IS NOT NULL),
    CHECK (status NOT IN ('waiting', 'by_hand', 'skipped') OR job_id IS NULL)
);
CREATE INDEX rollout_runners_of_runner ON rollout_runners (runner_id);
CREATE INDEX rollout_runners_updating ON rollout_runners (rollout_id) WHERE status = 'updating';

-- Which servers use the database, so that a newer one does not change tables under an older one (ADR 0082).
-- `newest_known` is the newest migration that a server knows. `announced` is the migration that a server waits to apply, or 0: servers
-- that do not know it end first.
CREATE TABLE servers (
    id text PRIMARY KEY,
    version text NOT NULL,
    newest_known bigint NOT NULL,
    announced bigint NOT NULL,
    expires_at double precision NOT NULL
);
