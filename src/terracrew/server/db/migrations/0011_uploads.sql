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
