"""How command line, runner and executor reach a server: one HTTP transport, the API client, events, the hub."""
