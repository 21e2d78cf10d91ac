-- Who let a job that waited for approval plan again with other imports.
ALTER TABLE jobs ADD COLUMN imports_chosen_by text NOT NULL DEFAULT '';
