"""Signatures of publishers, with the public keys that Terracrew accepts."""
