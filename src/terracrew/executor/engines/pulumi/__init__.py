"""Pulumi: its commands and environment, the checkpoint that is its state, and what it says about a preview."""
