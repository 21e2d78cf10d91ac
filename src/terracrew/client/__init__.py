"""How the command line, the runner and the executor reach a server: one HTTP transport, the API client, events and the hub."""
