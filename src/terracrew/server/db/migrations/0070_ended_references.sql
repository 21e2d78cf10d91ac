-- Who has ended an input that is an output of another module, so that it is not given any more; null if nobody has. The one who set it
-- is in `set_by`, and must still be allowed to read the state of the other module.
ALTER TABLE inputs ADD COLUMN ended_by_name text;
