-- Warm workspaces: whose result of a step was used, and which modules and jobs run init in any case.
ALTER TABLE steps ADD COLUMN kept_from bigint;
ALTER TABLE modules ADD COLUMN is_fresh boolean NOT NULL DEFAULT false;
ALTER TABLE jobs ADD COLUMN is_fresh boolean NOT NULL DEFAULT false;
