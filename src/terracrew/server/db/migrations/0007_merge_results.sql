-- Jobs run the result of merging a pull request: its pack is kept as long as they need it, and only runners that know such sources get them.
-- An older server cannot read the source of such a job, and would remove its pack.

-- The id of the pack stands at the end of a source that is a merge result: …"archive_id":"arc_…"}}. No other source ends with two braces.
CREATE INDEX jobs_merge ON jobs (substr(source, length(source) - 38, 36)) WHERE substr(source, length(source) - 1) = '}}';
ALTER TABLE instances ADD COLUMN knows_merge_results boolean NOT NULL DEFAULT false;
