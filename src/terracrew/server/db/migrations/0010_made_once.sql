-- What an engine has made is made a second time only after a person has looked.

-- Whether the engine is known to have ended its mutating command by itself; whether the attempt's last event has arrived.
ALTER TABLE attempts ADD COLUMN is_change_ended boolean NOT NULL DEFAULT false;
ALTER TABLE attempts ADD COLUMN has_result boolean NOT NULL DEFAULT false;
UPDATE attempts SET is_change_ended = true, has_result = true WHERE outcome IN ('succeeded', 'failed', 'canceled', 'waiting');
UPDATE attempts SET is_change_ended = true WHERE EXISTS (
    SELECT 1 FROM steps WHERE steps.job_id = attempts.job_id AND steps.attempt = attempts.number
        AND steps.name IN ('apply', 'destroy') AND (steps.status = 'SKIPPED' OR steps.exit_code IN (0, 1)));

-- What follows when an engine was cut short in the middle of a change. Null: as the group above says; at the top, `ask`.
ALTER TABLE groups ADD COLUMN interrupted text CHECK (interrupted IN ('ask', 'retry'));
ALTER TABLE modules ADD COLUMN interrupted text CHECK (interrupted IN ('ask', 'retry'));
ALTER TABLE jobs ADD COLUMN interrupted text NOT NULL DEFAULT 'ask' CHECK (interrupted IN ('ask', 'retry'));

-- How many resource instances a state holds, where the executor counted them.
ALTER TABLE states ADD COLUMN resources bigint;
