"""Drift: plans that show what was changed outside of the engine, compared with those before, so that only differences are told."""
