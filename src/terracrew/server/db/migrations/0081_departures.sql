-- What announced the end of an instance or its machine (a signal, a spot notice), and when it ends at the latest.
ALTER TABLE instances ADD COLUMN drain_reason text NOT NULL DEFAULT '';
ALTER TABLE instances ADD COLUMN ends_at double precision;
