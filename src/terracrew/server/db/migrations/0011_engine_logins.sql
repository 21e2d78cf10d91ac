-- The codes that `tofu login` and `terraform login` exchange for an API token, and which tokens they have got.
-- older servers: continue
ALTER TABLE api_tokens ADD COLUMN is_engine_login boolean NOT NULL DEFAULT false;

CREATE TABLE engine_logins (
    code_sha256 text PRIMARY KEY,
    user_id text NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    -- The session that allowed it. The code is valid only while this session is.
    session_id text NOT NULL,
    redirect_uri text NOT NULL,
    challenge text NOT NULL,
    -- The name of the token, and after how many days it expires; NULL if it does not.
    name text NOT NULL,
    days bigint,
    created_at double precision NOT NULL,
    expires_at double precision NOT NULL,
    used_at double precision,
    -- The token that was made. A second use of the code revokes it.
    token_id text,
    CHECK (token_id IS NULL OR used_at IS NOT NULL)
);
CREATE INDEX engine_logins_of_user ON engine_logins (user_id);
CREATE INDEX engine_logins_expiry ON engine_logins (expires_at);
