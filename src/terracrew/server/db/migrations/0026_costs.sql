-- What a program has said of the monthly cost of a plan.
-- older servers: continue
ALTER TABLE jobs ADD COLUMN cost text;
