-- How many bytes of log records of an attempt are stored, before compression, for the limit of one attempt's log.
ALTER TABLE attempts ADD COLUMN log_bytes bigint NOT NULL DEFAULT 0;
