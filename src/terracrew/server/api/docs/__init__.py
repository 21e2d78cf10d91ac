"""The description of the API for people: the OpenAPI document completed with words and commands, rendered as a page."""
