-- The options of a plan that a job was asked for: the addresses that it is limited to or replaces, and whether it looks at what exists.
-- older servers: continue
ALTER TABLE jobs ADD COLUMN targets text NOT NULL DEFAULT '[]';
ALTER TABLE jobs ADD COLUMN replace text NOT NULL DEFAULT '[]';
ALTER TABLE jobs ADD COLUMN refresh boolean NOT NULL DEFAULT true;
