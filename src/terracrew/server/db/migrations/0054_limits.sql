-- Limits of jobs: what groups and modules set, and what applies to a job. What a job lacked when it failed, and a step that is repeated.
ALTER TABLE groups ADD COLUMN limits text NOT NULL DEFAULT '{}';
ALTER TABLE modules ADD COLUMN limits text NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN limits text NOT NULL DEFAULT '{}';
ALTER TABLE jobs ADD COLUMN failure_kind text NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN retry text;
