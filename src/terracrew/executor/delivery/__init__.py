"""Carries everything that an attempt records to the server: the outbox on disk, the connection and file transfers."""
