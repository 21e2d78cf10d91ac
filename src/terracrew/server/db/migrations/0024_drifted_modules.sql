-- The overview finds modules with drift without reading all that were ever checked.
-- older servers: continue
CREATE INDEX drift_modules_drifted ON drift_modules (organization_id, drifted_since) WHERE drifted > 0;
