-- A job says what made the server create it: a pull request, a schedule, or a drift check.
-- older servers: continue
ALTER TABLE jobs ADD COLUMN origin text;
