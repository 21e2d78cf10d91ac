-- States that cannot be read are kept as they came, and outputs may be larger than a row should be.

-- Why the state cannot be read; empty where it can.
ALTER TABLE states ADD COLUMN problem text NOT NULL DEFAULT '';
-- Where the content is, if it is not in the row.
ALTER TABLE outputs ADD COLUMN object text;
-- Whether the last state of the attempt that arrived cannot be read: what it changed is not accounted for then.
ALTER TABLE attempts ADD COLUMN has_unreadable_state boolean NOT NULL DEFAULT false;
