"""Forges: what hosts git repositories and shows pull requests. A contract, and a package for each kind (ADR 0090)."""
