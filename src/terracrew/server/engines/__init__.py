"""Versions of engines: which ones modules want, and which ones the instances of runners have."""
