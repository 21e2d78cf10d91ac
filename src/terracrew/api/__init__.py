"""The structs of the HTTP API: what server, command line, dashboard, demo and the Python client send and receive."""
