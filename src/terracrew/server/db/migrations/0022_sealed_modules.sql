-- Inputs and environment of a module in one ciphertext. The columns in plain text are renamed, so that a server of an earlier
-- version fails instead of running jobs without inputs; they are emptied when the server starts, which alone has the key.
ALTER TABLE modules RENAME COLUMN inputs TO plain_inputs;
ALTER TABLE modules RENAME COLUMN environment TO plain_environment;
ALTER TABLE modules ADD COLUMN sealed bytea;
-- Changes with the content. Empty where the content is that of an earlier version: then plans are compared by its hash.
ALTER TABLE modules ADD COLUMN content_revision text NOT NULL DEFAULT '';
CREATE INDEX modules_unsealed ON modules (id) WHERE sealed IS NULL;
