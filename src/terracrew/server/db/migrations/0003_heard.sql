-- When the executor of an attempt was last heard, or its runner while it named the attempt, by whichever server.

ALTER TABLE attempts ADD COLUMN heard_at double precision;
