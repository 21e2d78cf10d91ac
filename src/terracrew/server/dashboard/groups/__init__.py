"""The pages of a group: what is in it, its settings, and who has access to it."""
