-- How many different people must approve a plan before it is applied. The largest number of the module and its groups applies.
ALTER TABLE groups ADD COLUMN min_approvals bigint CHECK (min_approvals BETWEEN 1 AND 20);
ALTER TABLE modules ADD COLUMN min_approvals bigint CHECK (min_approvals BETWEEN 1 AND 20);

-- Who has approved a plan until now, with what each of them had looked at.
ALTER TABLE plans ADD COLUMN approvals text NOT NULL DEFAULT '[]';
