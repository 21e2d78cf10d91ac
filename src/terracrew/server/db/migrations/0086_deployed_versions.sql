-- What was deployed for a cloud-hosted runner, and which of its instances were started with an earlier deployment (ADR 0081).
ALTER TABLE cloud_deployments ADD COLUMN revision bigint NOT NULL DEFAULT 0;
ALTER TABLE cloud_deployments ADD COLUMN image text NOT NULL DEFAULT '';
ALTER TABLE cloud_instances ADD COLUMN revision bigint NOT NULL DEFAULT 0;
