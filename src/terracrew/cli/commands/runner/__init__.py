"""`terracrew runner`: its commands."""
