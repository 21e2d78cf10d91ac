-- Indexes for what is asked every second.

DROP INDEX attempts_lost;
DROP INDEX plans_undecided;
CREATE INDEX plans_kept ON plans (decide_by) WHERE is_kept;
-- Rows of hosts that no longer exist accumulate; only the connected ones are read.
CREATE INDEX instances_connected ON instances (id) WHERE is_connected;
