"""People: users, passwords, sessions, one-time links and API tokens."""
