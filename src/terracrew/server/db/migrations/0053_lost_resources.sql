-- What the logs of attempts that were cut short report as created, changed or destroyed. A log is searched once; if more of it
-- arrives later, it is searched again.
CREATE TABLE lost_resources (
    job_id text NOT NULL REFERENCES jobs (id),
    attempt bigint NOT NULL,
    number bigint NOT NULL,
    address text NOT NULL,
    action text NOT NULL CHECK (action IN ('created', 'changed', 'destroyed', 'creating', 'changing', 'destroying')),
    resource_id text NOT NULL,
    replaced_id text NOT NULL,
    event bigint NOT NULL,
    changed_at double precision NOT NULL,
    PRIMARY KEY (job_id, attempt, number)
);
ALTER TABLE attempts ADD COLUMN is_log_searched boolean NOT NULL DEFAULT false;
UPDATE attempts SET is_log_searched = true
    WHERE begun_at IS NOT NULL AND NOT is_change_ended AND ended_at IS NOT NULL AND NOT is_in_doubt;
CREATE INDEX attempts_to_search ON attempts (job_id, number)
    WHERE begun_at IS NOT NULL AND NOT is_change_ended AND (ended_at IS NOT NULL OR lost_at IS NOT NULL) AND NOT is_log_searched;
