"""Logs of attempts: chunks in the database while an attempt runs, blocks in the object store afterwards."""
