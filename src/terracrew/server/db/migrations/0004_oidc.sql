-- The clouds that a module's jobs get tokens for: the audiences, a JSON list.

ALTER TABLE modules ADD COLUMN oidc_audiences text NOT NULL DEFAULT '[]';
