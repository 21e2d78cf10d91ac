"""`terracrew module`: its commands."""
