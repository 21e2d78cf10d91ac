-- How a server notices that its database was set back, and what it holds until a person has released it.
CREATE TABLE history (
    id text PRIMARY KEY,
    at double precision NOT NULL
);
CREATE INDEX history_at ON history (at);
CREATE TABLE holds (
    id text PRIMARY KEY,
    reason text NOT NULL,
    is_set_back boolean NOT NULL,
    set_back_to double precision,
    started_at double precision NOT NULL,
    is_open boolean NOT NULL DEFAULT true,
    released_at double precision,
    released_by text,
    CHECK (is_open = (released_at IS NULL)),
    CHECK (is_open = (released_by IS NULL))
);
CREATE UNIQUE INDEX holds_open ON holds (is_open) WHERE is_open;
CREATE TABLE held_modules (
    module_id text NOT NULL,
    hold_id text NOT NULL REFERENCES holds (id),
    is_held boolean NOT NULL,
    is_in_doubt boolean NOT NULL,
    evidence text NOT NULL DEFAULT '',
    released_at double precision,
    released_by text,
    PRIMARY KEY (module_id, hold_id)
);
CREATE INDEX held_modules_of_hold ON held_modules (hold_id, module_id);
ALTER TABLE jobs ADD COLUMN has_lost_inputs boolean NOT NULL DEFAULT false;
ALTER TABLE attempts ADD COLUMN may_have_begun boolean NOT NULL DEFAULT false;
