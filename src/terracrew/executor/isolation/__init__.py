"""Restricts what an engine, the fetch of a source, and everything that they start can reach on this machine."""
