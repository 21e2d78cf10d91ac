-- The hash of a saved plan itself, so that only the plan that was described and approved is applied.
ALTER TABLE plans ADD COLUMN plan_sha256 text NOT NULL DEFAULT '';
