"""Gets the source of a module into the workspace of an attempt."""
