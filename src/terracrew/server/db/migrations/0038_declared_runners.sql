-- The settings file of the server that declares a shared runner, or that declared it until it was retired.
ALTER TABLE runners ADD COLUMN declared_in text CHECK (declared_in IS NULL OR organization_id IS NULL);
