"""Alerts about runners whose credentials somebody else may use."""
