-- A look at tags that somebody asked for while another one ran is not forgotten.
-- older servers: continue
ALTER TABLE published_modules ADD COLUMN asked_at double precision;
