-- Some of an archive's configuration files, enough to tell which folders have one for which engine. Null: not known.
ALTER TABLE archives ADD COLUMN configurations text;

-- A plan of destroying everything, which changes nothing.
ALTER TABLE jobs ADD COLUMN is_destroy_plan boolean NOT NULL DEFAULT false CHECK (NOT is_destroy_plan OR type = 'PLAN');

-- Whether the job was asked to run another source than its module's: when it is run again, it keeps that source.
ALTER TABLE jobs ADD COLUMN has_own_source boolean NOT NULL DEFAULT false;
