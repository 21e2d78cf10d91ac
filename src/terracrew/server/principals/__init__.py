"""Principals and their permissions: the principal of a request, roles, verbs, and what a reader may see."""
