-- Whether an attempt may have left the lock of its module's own backend behind: its engine was killed, or its end is not known.
ALTER TABLE attempts ADD COLUMN may_hold_lock boolean NOT NULL DEFAULT false;
CREATE INDEX attempts_may_hold_lock ON attempts (job_id) WHERE may_hold_lock;
