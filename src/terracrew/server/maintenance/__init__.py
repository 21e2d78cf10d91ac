"""What keeps an administrator in control from the machine of the server: a way in, the local token, and backups."""
