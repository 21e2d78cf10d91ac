-- Why an instance takes no jobs by its own word: its disk is full, or else it is about to stop.
ALTER TABLE instances ADD COLUMN is_disk_full boolean NOT NULL DEFAULT false;
