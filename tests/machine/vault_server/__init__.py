"""Vault itself for tests: its core with KV and four ways to log in, built from its Go module."""
