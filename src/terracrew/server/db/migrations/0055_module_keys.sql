-- The key under which an engine encrypts the secrets in a module's state itself. It is made with the module's first job.
ALTER TABLE modules ADD COLUMN sealed_key bytea;
