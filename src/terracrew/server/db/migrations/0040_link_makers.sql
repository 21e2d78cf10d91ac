-- Who made a one-time link. It is valid only while this principal may give somebody the account; links made before name nobody.
ALTER TABLE one_time_links ADD COLUMN created_by text NOT NULL DEFAULT '';
