"""Releases: the published versions of Terracrew, which the whole server knows."""
