"""What people read in the same words on pages and terminals; nothing here reads a database or a request."""
