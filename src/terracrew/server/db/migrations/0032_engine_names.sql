-- A module may name an engine of another package, which is installed on runners. SQLite cannot change a CHECK, so the column is
-- replaced. The service checks the whole pattern; a CHECK that both databases understand checks the length and the case.
ALTER TABLE modules ADD COLUMN engine_name text NOT NULL DEFAULT 'tofu'
    CHECK (length(engine_name) BETWEEN 1 AND 32 AND engine_name = lower(engine_name));
UPDATE modules SET engine_name = engine;
ALTER TABLE modules DROP COLUMN engine;
ALTER TABLE modules RENAME COLUMN engine_name TO engine;
