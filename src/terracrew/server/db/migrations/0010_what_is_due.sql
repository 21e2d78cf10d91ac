-- What is due next is found without reading all messages and drift checks that wait, and all pull requests that were ever merged.
-- older servers: continue
CREATE INDEX notification_deliveries_sending ON notification_deliveries (sending_until) WHERE sending_until IS NOT NULL;
CREATE INDEX drift_modules_waiting ON drift_modules (organization_id, due_at, module_id)
    WHERE due_at IS NOT NULL AND job_id IS NULL;
CREATE INDEX forge_pull_requests_merged ON forge_pull_requests (changed_at) WHERE state = 'merged';
