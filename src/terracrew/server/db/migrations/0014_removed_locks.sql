-- Locks of people that were removed by force: what their holders write afterwards is kept in quarantine.
-- older servers: continue
CREATE TABLE removed_locks (
    id text PRIMARY KEY,
    module_id text NOT NULL REFERENCES modules (id) ON DELETE CASCADE,
    holder_id text NOT NULL,
    credential_id text NOT NULL,
    client_lock_id text NOT NULL,
    removed_by_name text NOT NULL,
    removed_at double precision NOT NULL
);
CREATE INDEX removed_locks_of_module ON removed_locks (module_id, removed_at);
