-- Rows that are to be removed are found without reading the others.

CREATE INDEX instances_gone ON instances (disconnected_at) WHERE NOT is_connected;
CREATE INDEX attempts_of_instance ON attempts (instance_id);
CREATE INDEX attempts_of_runner ON attempts (runner_id);
CREATE INDEX jobs_idempotency_age ON jobs (created_at) WHERE idempotency_key IS NOT NULL;
