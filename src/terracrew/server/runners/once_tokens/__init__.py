"""Once tokens: credentials of runners that are valid for one job (ADR 0061)."""
