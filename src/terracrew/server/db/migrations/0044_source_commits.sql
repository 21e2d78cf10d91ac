-- A job whose source is a git repository knows its commit, what led to it, and whether a tag has moved since an earlier job.
ALTER TABLE jobs ADD COLUMN source_commit text NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN source_revision text NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN source_moved_from text NOT NULL DEFAULT '';
