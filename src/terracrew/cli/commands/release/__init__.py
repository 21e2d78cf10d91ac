"""`terracrew release`: publishes, shows and withdraws releases of Terracrew."""
