"""Connections of executors: each delivers the events of its attempt and asks for permission to apply."""
