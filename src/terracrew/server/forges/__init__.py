"""Connections to forges, the repositories that are watched, and the facts of their pull requests."""
