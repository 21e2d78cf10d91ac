-- What may be the work of a thief of a runner's credentials. An alert counts its repetitions until a person acknowledges it.
CREATE TABLE runner_alerts (
    id text PRIMARY KEY,
    runner_id text NOT NULL REFERENCES runners (id) ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('moved', 'taken_over', 'refused', 'ended_token')),
    instance text NOT NULL,
    address text,
    former_address text,
    former_at double precision,
    is_other_machine boolean NOT NULL,
    count bigint NOT NULL CHECK (count > 0),
    first_at double precision NOT NULL,
    last_at double precision NOT NULL,
    audited_at double precision NOT NULL,
    acknowledged_at double precision,
    acknowledged_by text,
    CONSTRAINT runner_alerts_acknowledged CHECK ((acknowledged_at IS NULL) = (acknowledged_by IS NULL))
);
CREATE UNIQUE INDEX runner_alerts_open ON runner_alerts (runner_id, kind, instance) WHERE acknowledged_at IS NULL;
CREATE INDEX runner_alerts_runner ON runner_alerts (runner_id, last_at);
CREATE INDEX runner_alerts_last ON runner_alerts (last_at);
-- What a runner says about the machine that it runs on; empty if it does not know.
ALTER TABLE instances ADD COLUMN machine text NOT NULL DEFAULT '';
