-- Why a person has to look at a plan.
ALTER TABLE plans ADD COLUMN why text NOT NULL DEFAULT '';

-- How much an APPLY may destroy without an approval. Null: as the group above says; at the top, everything but all.
ALTER TABLE groups ADD COLUMN max_destroy bigint CHECK (max_destroy >= 0);
ALTER TABLE groups ADD COLUMN max_destroy_percent bigint CHECK (max_destroy_percent BETWEEN 0 AND 100);
ALTER TABLE modules ADD COLUMN max_destroy bigint CHECK (max_destroy >= 0);
ALTER TABLE modules ADD COLUMN max_destroy_percent bigint CHECK (max_destroy_percent BETWEEN 0 AND 100);

-- Who may approve. Null: as the group above says; at the top, whoever queued the job may, and a service account may not.
ALTER TABLE groups ADD COLUMN self_approval boolean;
ALTER TABLE groups ADD COLUMN service_account_approval boolean;
