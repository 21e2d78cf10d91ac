-- A key is published before it signs. Until then it is not active, and its time of retirement is far away.
ALTER TABLE signing_keys ADD COLUMN signs_from double precision;
