"""The HTTP API, with one file of handlers for each noun. A handler reads the request, calls the domain and answers."""
