-- An input of a module that is the output of another module. The claim and the scheduler look for those without outputs.
ALTER TABLE inputs ADD COLUMN source_module_id text;
ALTER TABLE inputs ADD COLUMN source_output text;
CREATE INDEX inputs_of_outputs ON inputs (place_id, source_module_id) WHERE is_current AND source_module_id IS NOT NULL;
