"""Runs of whole groups: all modules below a group are applied or destroyed in the order of their dependencies."""
