"""What an administrator needs on the server's machine: access without a password, the local token, and backups."""
