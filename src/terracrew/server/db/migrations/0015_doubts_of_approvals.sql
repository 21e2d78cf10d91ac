-- The attempts in doubt that the approver of a plan has looked at. An approval does not apply to any other doubt.

ALTER TABLE plans ADD COLUMN doubts text NOT NULL DEFAULT '[]';
