-- The tokens of other issuers that were exchanged and have not expired, so that none is exchanged twice.
CREATE TABLE exchanged_tokens (
    organization_id text NOT NULL,
    sha256 text NOT NULL,
    expires_at double precision NOT NULL,
    PRIMARY KEY (organization_id, sha256)
);
CREATE INDEX exchanged_tokens_expiry ON exchanged_tokens (expires_at);
