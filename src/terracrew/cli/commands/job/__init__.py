"""`terracrew job`: its commands, and how a job is followed and shown on a terminal."""
