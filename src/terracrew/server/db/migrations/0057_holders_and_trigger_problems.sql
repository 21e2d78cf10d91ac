-- Everybody who has ever made a secret of a service account, and so may act as it. The row outlives the secret and the account:
-- an approval, or a job, of the account still counts as one of these people.
CREATE TABLE service_account_holders (
    service_account_id text NOT NULL,
    holder_id text NOT NULL,
    organization_id text NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    PRIMARY KEY (service_account_id, holder_id)
);
CREATE INDEX service_account_holders_of_organization ON service_account_holders (organization_id);
INSERT INTO service_account_holders (service_account_id, holder_id, organization_id)
SELECT secrets.service_account_id, secrets.created_by, accounts.organization_id
FROM service_account_secrets AS secrets JOIN service_accounts AS accounts ON accounts.id = secrets.service_account_id
UNION
SELECT audit.target_id, audit.actor_id, audit.organization_id
FROM audit JOIN organizations ON organizations.id = audit.organization_id
WHERE audit.action = 'service_account.add_secret';

-- Who let a job plan again. They count as people who queued it.
ALTER TABLE jobs ADD COLUMN replanned_by text NOT NULL DEFAULT '[]';

-- Why a changed output could not queue the job of a module that is applied by itself. A later job of the module ends it.
CREATE TABLE trigger_problems (
    module_id text PRIMARY KEY,
    cause_job_id text NOT NULL,
    message text NOT NULL,
    created_at double precision NOT NULL
);
