-- A person may hold the lock of a module instead of a job. An older server would start jobs of such a module, so it has to end first.

-- `modules.lock_id` is the id of the row in `module_locks`. It is in the row of the module because a claim locks that row: no claim
-- that has not seen the lock can be committed after it. `lock_doubt` says why what was changed under a lock may be in no state.
ALTER TABLE modules ADD COLUMN lock_id text;
ALTER TABLE modules ADD COLUMN lock_doubt text NOT NULL DEFAULT '';

CREATE TABLE module_locks (
    module_id text PRIMARY KEY REFERENCES modules (id) ON DELETE CASCADE,
    id text NOT NULL,
    holder_id text NOT NULL,
    holder_kind text NOT NULL CHECK (holder_kind IN ('user', 'service_account')),
    holder_name text NOT NULL,
    -- What the holder has authenticated with. Only the same credential writes states under the lock.
    credential_id text NOT NULL,
    credential text NOT NULL,
    credential_name text NOT NULL DEFAULT '',
    reason text NOT NULL DEFAULT '',
    -- What the engine of the holder says: its own id of the lock, what it does, who it runs as, where, and its version.
    client_lock_id text NOT NULL DEFAULT '',
    operation text NOT NULL DEFAULT '',
    who text NOT NULL DEFAULT '',
    client_version text NOT NULL DEFAULT '',
    client_path text NOT NULL DEFAULT '',
    created_at double precision NOT NULL,
    -- How many states were written under it, and whether the last one was written in the middle of a change.
    writes bigint NOT NULL DEFAULT 0,
    is_last_intermediate boolean NOT NULL DEFAULT false,
    CONSTRAINT module_locks_id UNIQUE (id)
);
