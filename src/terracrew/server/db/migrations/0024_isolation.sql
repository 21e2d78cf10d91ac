-- What keeps the modules that an instance runs from its own files, as the runner says it: landlock, none or unavailable.
ALTER TABLE instances ADD COLUMN isolation text NOT NULL DEFAULT '';
