"""The OpenAPI document of the API, completed with what handlers and structs say about themselves."""
