"""Reads what an engine prints and records it line by line."""
