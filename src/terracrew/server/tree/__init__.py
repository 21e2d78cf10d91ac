"""Groups and modules: the tree in which everything that is managed has a place, and what places say about jobs."""
