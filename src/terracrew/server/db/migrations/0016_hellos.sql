-- The connected instances of a runner are found without reading those that it had.
CREATE INDEX instances_connected_of_runner ON instances (runner_id, id) WHERE is_connected;
