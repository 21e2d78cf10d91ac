-- Where things come from: the client's address and the credential behind each entry of the audit, each session and each
-- connected instance. NULL: the server itself, or before this column was there.

ALTER TABLE audit ADD COLUMN address text;
ALTER TABLE audit ADD COLUMN credential_id text;
ALTER TABLE sessions ADD COLUMN address text;
ALTER TABLE instances ADD COLUMN address text;

-- A token that the server leaves in its data directory for the command line on its own machine.
ALTER TABLE api_tokens ADD COLUMN is_local boolean NOT NULL DEFAULT false;
