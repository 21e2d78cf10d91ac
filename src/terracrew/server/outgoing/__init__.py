"""Requests of this server to addresses that people configured: no such address can lead into the network of this server."""
