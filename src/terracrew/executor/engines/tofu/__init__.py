"""The OpenTofu engine."""
