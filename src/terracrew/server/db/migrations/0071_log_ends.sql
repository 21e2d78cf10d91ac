-- Whether the whole log of an attempt has arrived, and when the last event did. What an attempt that was cut short has made is read
-- from its log, so the list may be incomplete if the log is. `plan` is the plan that the attempt was to carry out, kept when its job
-- is queued again and makes another one.
ALTER TABLE attempts ADD COLUMN received_at double precision;
ALTER TABLE attempts ADD COLUMN is_delivered boolean NOT NULL DEFAULT false;
ALTER TABLE attempts ADD COLUMN is_output_missing boolean NOT NULL DEFAULT false;
ALTER TABLE attempts ADD COLUMN plan text;
