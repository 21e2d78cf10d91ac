-- The lock under which a command line has announced a state, and whether that state was refused.
-- older servers: continue
ALTER TABLE state_uploads ADD COLUMN lock_id text NOT NULL DEFAULT '';
ALTER TABLE state_uploads ADD COLUMN is_refused boolean NOT NULL DEFAULT false;
