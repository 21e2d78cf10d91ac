"""SQLite behind the storage interface: one process and one writer for each file."""
