"""Policies: Rego that looks at plans before they are applied, and what follows from what it says (ADR 0101)."""
