"""Removes what is old, deleted or without a reference, in small batches, and counts what is stored."""
