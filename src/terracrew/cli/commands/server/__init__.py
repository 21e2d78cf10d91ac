"""`terracrew server`: its commands and its options."""
