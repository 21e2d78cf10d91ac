-- People log out at their provider, too, and link themselves to their person there.
-- older servers: continue
ALTER TABLE identity_providers ADD COLUMN ends_session_there boolean NOT NULL DEFAULT true;
ALTER TABLE identity_providers ADD COLUMN returns_after_logout boolean NOT NULL DEFAULT false;
ALTER TABLE identity_providers ADD COLUMN allows_self_link boolean NOT NULL DEFAULT false;
