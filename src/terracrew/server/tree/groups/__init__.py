"""Organizations and their trees of groups."""
