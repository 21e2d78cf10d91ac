"""Clouds that runners are started in: one contract, and a package for each cloud that meets it."""
