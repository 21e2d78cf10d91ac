"""Modules: their settings, sources, inputs and policies."""
