"""The keys that sign the tokens of this server, and their rotation."""
