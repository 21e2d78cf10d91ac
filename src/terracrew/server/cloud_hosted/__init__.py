"""Runners that the server starts in clouds: what was deployed, what runs there, and how much of it is needed."""
