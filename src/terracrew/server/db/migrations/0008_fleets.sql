-- Of thousands of runners, the one with a worker token and those that are assigned to a place are found without looking at all.

CREATE INDEX runners_worker_token ON runners (worker_token_sha256) WHERE worker_token_sha256 IS NOT NULL;
CREATE INDEX assignments_place ON assignments (place_id);
