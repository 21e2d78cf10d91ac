-- Dispatchers: what groups and modules ask of them, what applies to a job, and what instances offer.
ALTER TABLE groups ADD COLUMN dispatcher text NOT NULL DEFAULT '{}';
ALTER TABLE modules ADD COLUMN dispatcher text NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN dispatcher text NOT NULL DEFAULT '{}';
ALTER TABLE instances ADD COLUMN dispatchers text NOT NULL DEFAULT '[]';
