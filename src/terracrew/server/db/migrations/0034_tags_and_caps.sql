-- Which runners may have the jobs of a module (its tags), how many jobs of a group run at once, and which jobs come first.
-- The cap of an organization is that of its root group. Every cap on the way from a module to the root applies.
ALTER TABLE modules ADD COLUMN tags text NOT NULL DEFAULT '[]';
ALTER TABLE modules ADD COLUMN priority bigint NOT NULL DEFAULT 0 CHECK (priority BETWEEN -100 AND 100);
ALTER TABLE groups ADD COLUMN max_running_jobs bigint CHECK (max_running_jobs > 0);
