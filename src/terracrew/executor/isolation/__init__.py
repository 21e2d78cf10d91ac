"""Restricts what an engine, and everything that it starts, can reach on this machine."""
