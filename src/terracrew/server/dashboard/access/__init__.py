"""The pages about access: users, service accounts, the roles at a group, and the audit log."""
