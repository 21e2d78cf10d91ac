-- The users of other organizations who have a role in an organization, in the order of their ids, for the list of users.
CREATE INDEX role_bindings_of_members ON role_bindings (organization_id, principal_kind, principal_id);
