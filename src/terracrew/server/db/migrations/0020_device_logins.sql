-- The logins of our own command line: with a browser on its machine, and with one elsewhere.
-- older servers: continue
ALTER TABLE api_tokens ADD COLUMN is_cli_login boolean NOT NULL DEFAULT false;
ALTER TABLE engine_logins ADD COLUMN client_id text NOT NULL DEFAULT 'terraform-cli';

CREATE TABLE device_logins (
    device_code_sha256 text PRIMARY KEY,
    user_code_sha256 text NOT NULL UNIQUE,
    -- What the command line says of itself, and from where it asked.
    machine text NOT NULL,
    address text NOT NULL,
    interval_seconds double precision NOT NULL,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    polled_at double precision,
    -- The answer, by whom, in which session, and what the token is called.
    is_allowed boolean,
    user_id text REFERENCES users (id) ON DELETE CASCADE,
    session_id text,
    name text,
    days bigint,
    used_at double precision,
    -- The token that was made. A second use of the code revokes it.
    token_id text,
    CHECK ((is_allowed IS NULL) = (user_id IS NULL)),
    CHECK ((is_allowed IS NULL) = (session_id IS NULL)),
    CHECK ((is_allowed IS NULL) = (name IS NULL)),
    CHECK (used_at IS NULL OR is_allowed),
    CHECK (token_id IS NULL OR used_at IS NOT NULL)
);
CREATE INDEX device_logins_of_user ON device_logins (user_id);
CREATE INDEX device_logins_expiry ON device_logins (expires_at);
