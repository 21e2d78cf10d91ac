-- People are told of events by channels. What a channel has to send is a row, written in one transaction with the change it tells of.
-- older servers: continue
CREATE TABLE notification_channels (
    id text PRIMARY KEY,
    organization_id text NOT NULL REFERENCES organizations (id),
    place_id text NOT NULL,
    path text NOT NULL,
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('webhook', 'slack', 'teams', 'email')),
    events text NOT NULL,
    is_enabled boolean NOT NULL,
    target text NOT NULL,
    recipients text NOT NULL,
    slack_channel text NOT NULL,
    sealed bytea,
    created_by text NOT NULL,
    created_by_name text NOT NULL,
    created_at double precision NOT NULL,
    CONSTRAINT notification_channels_name UNIQUE (place_id, name),
    CHECK ((sealed IS NULL) = (kind = 'email'))
);
CREATE INDEX notification_channels_of_organization ON notification_channels (organization_id, path);

-- One row for each event and channel. A server that sends one holds it until `sending_until`; `since` is when it was first due, or
-- when somebody asked to send it again.
CREATE TABLE notification_deliveries (
    channel_id text NOT NULL REFERENCES notification_channels (id) ON DELETE CASCADE,
    notification_id text NOT NULL,
    event text NOT NULL
        CHECK (event IN ('approval_wanted', 'job_failed', 'job_lost', 'drift', 'runner_offline', 'release')),
    path text NOT NULL,
    subject_id text NOT NULL,
    content text NOT NULL,
    status text NOT NULL CHECK (status IN ('WAITING', 'DELIVERED', 'GIVEN_UP')),
    tries bigint NOT NULL DEFAULT 0,
    created_at double precision NOT NULL,
    since double precision NOT NULL,
    next_at double precision,
    sending_until double precision,
    ended_at double precision,
    answer_status bigint,
    error text NOT NULL DEFAULT '',
    thread text NOT NULL DEFAULT '',
    PRIMARY KEY (channel_id, notification_id),
    CHECK ((status = 'WAITING') = (next_at IS NOT NULL)),
    CHECK ((status = 'WAITING') = (ended_at IS NULL))
);
CREATE INDEX notification_deliveries_waiting ON notification_deliveries (channel_id, next_at) WHERE status = 'WAITING';
