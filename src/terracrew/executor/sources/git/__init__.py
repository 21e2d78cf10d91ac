"""Fetches repositories with the program `git`, through mirrors that all attempts of a runner share (ADR 0040)."""
