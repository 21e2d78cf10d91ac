-- Who brought a state that no job wrote: the id of a user or service account, and '' for every state of a job.
ALTER TABLE states ADD COLUMN brought_by text NOT NULL DEFAULT '';
