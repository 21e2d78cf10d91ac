"""The OpenAPI document of the API, completed with the docstrings of handlers and structs."""
