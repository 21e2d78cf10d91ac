-- The hash of the secret by which the process of an instance's last connection takes its place again at once.
ALTER TABLE instances ADD COLUMN resume_sha256 text NOT NULL DEFAULT '';
