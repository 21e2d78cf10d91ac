"""How a runner updates itself (ADR 0080)."""
