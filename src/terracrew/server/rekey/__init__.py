"""Encrypts everything that the server stores under a new master key, while it runs."""
