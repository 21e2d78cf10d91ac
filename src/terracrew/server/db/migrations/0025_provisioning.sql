-- People and groups that an identity provider manages (SCIM).
-- older servers: continue
-- Up to which version of its rules everybody was evaluated whom the identity provider manages.
ALTER TABLE identity_providers ADD COLUMN groups_version bigint NOT NULL DEFAULT 0;

CREATE TABLE provisioners (
    organization_id text PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    service_account_id text NOT NULL REFERENCES service_accounts (id) ON DELETE CASCADE,
    -- The provider of single sign-on at which the same people log in.
    provider_id text REFERENCES identity_providers (id) ON DELETE SET NULL,
    created_by text NOT NULL,
    created_at double precision NOT NULL
);
CREATE INDEX provisioners_of_account ON provisioners (service_account_id);

CREATE TABLE provisioned_people (
    user_id text PRIMARY KEY REFERENCES users (id) ON DELETE CASCADE,
    organization_id text NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    user_name text NOT NULL,
    user_name_key text NOT NULL,
    external_id text NOT NULL,
    display_name text NOT NULL,
    name text NOT NULL,
    emails text NOT NULL,
    created_at double precision NOT NULL,
    changed_at double precision NOT NULL,
    -- The identity provider has deleted the person; the user is disabled.
    deleted_at double precision
);
-- Among those that are not deleted, a name belongs to one person: the code holds the row of the provisioner when it writes one.
CREATE INDEX provisioned_people_name ON provisioned_people (organization_id, user_name_key);
CREATE INDEX provisioned_people_external_id ON provisioned_people (organization_id, external_id);

CREATE TABLE provisioned_groups (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    display_name text NOT NULL,
    display_name_key text NOT NULL,
    external_id text NOT NULL,
    created_at double precision NOT NULL,
    changed_at double precision NOT NULL
);
CREATE INDEX provisioned_groups_name ON provisioned_groups (organization_id, display_name_key);

CREATE TABLE provisioned_members (
    group_id text NOT NULL REFERENCES provisioned_groups (id) ON DELETE CASCADE,
    user_id text NOT NULL REFERENCES provisioned_people (user_id) ON DELETE CASCADE,
    PRIMARY KEY (group_id, user_id)
);
CREATE INDEX provisioned_members_of_user ON provisioned_members (user_id);
