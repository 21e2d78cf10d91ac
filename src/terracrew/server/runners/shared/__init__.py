"""Shared runners: the declaration of a server's settings file, how it is applied, and what people may change."""
