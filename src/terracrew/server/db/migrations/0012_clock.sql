-- How far the time in use is ahead of the wall clock (see ADR 0014), and the wall clock's time when that was stored.
CREATE TABLE clock (
    name text PRIMARY KEY,
    correction double precision NOT NULL,
    stored_at double precision NOT NULL
);
