"""The connection of this runner to its server: credentials, messages and heartbeats."""
