-- What a group or a module adds to a step of the jobs in and below it: hooks, and flags of the engine.
CREATE TABLE step_settings (
    place_id text NOT NULL,
    step text NOT NULL,
    organization_id text NOT NULL REFERENCES organizations (id),
    path text NOT NULL,
    before text,
    after text,
    flags text NOT NULL,
    changed_by text NOT NULL,
    changed_at double precision NOT NULL,
    PRIMARY KEY (place_id, step)
);
CREATE INDEX step_settings_of_organization ON step_settings (organization_id, path);
