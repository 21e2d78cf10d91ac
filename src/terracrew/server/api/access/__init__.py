"""Who may do what, over HTTP: people, tokens, service accounts, roles, the endpoints of OAuth 2, and the audit log."""
