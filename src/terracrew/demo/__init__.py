"""`terracrew demo`: runs a complete Terracrew with sample modules, for people who want to see it first."""
