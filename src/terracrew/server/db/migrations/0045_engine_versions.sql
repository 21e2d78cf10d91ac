-- A module may want certain versions of its engine; instances announce all of their versions. Claims compare both.
ALTER TABLE modules ADD COLUMN engine_version text NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN pinned_engine_version text NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN engine_versions text NOT NULL DEFAULT '{}';
ALTER TABLE instances ADD COLUMN installable_engines text NOT NULL DEFAULT '[]';
CREATE TABLE instance_engines (
    instance_id text NOT NULL REFERENCES instances (id) ON DELETE CASCADE,
    engine text NOT NULL,
    version text NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (instance_id, engine, version)
);
CREATE TABLE engine_version_ranges (
    engine text NOT NULL,
    wanted text NOT NULL,
    low bigint NOT NULL,
    high bigint NOT NULL,
    version text,
    installs text,
    PRIMARY KEY (engine, wanted, low)
);
