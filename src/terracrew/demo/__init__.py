"""`terracrew demo`: a whole Terracrew at work on sample modules, for people who want to see it first."""
