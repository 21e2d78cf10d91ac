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
