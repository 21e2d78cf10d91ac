"""Pull requests: which modules one touches, their plans, what the forge is told, and what is applied (ADR 0092)."""
