"""Runs the steps of a job one after the other and reports how each of them ended."""
