-- The runners that people were notified of because they stayed away: a row is deleted when its outage ends.
-- older servers: continue
CREATE TABLE runner_outages (
    runner_id text PRIMARY KEY REFERENCES runners (id) ON DELETE CASCADE,
    since double precision NOT NULL
);
