-- Cloud identities: what groups and modules set, and what applies to a job.
ALTER TABLE groups ADD COLUMN cloud text NOT NULL DEFAULT '{}';
ALTER TABLE modules ADD COLUMN cloud text NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN cloud text NOT NULL DEFAULT '{}';
