-- People filter the audit log by the name of who made a change.
CREATE INDEX audit_of_actor_name ON audit (organization_id, actor_name, id);
