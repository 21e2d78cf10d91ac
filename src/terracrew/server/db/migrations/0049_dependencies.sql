-- Which modules use an output of a module: the list of its dependents, and what its apply concerns.
CREATE INDEX inputs_by_source ON inputs (source_module_id, id) WHERE is_current AND source_module_id IS NOT NULL;
