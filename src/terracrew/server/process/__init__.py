"""The process around the application: its socket, its diagnostics, the wait for the database, and the built-in runner."""
