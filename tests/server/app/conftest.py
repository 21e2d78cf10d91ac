"""Rooms are tested through the API."""

from tests.server.app.fixtures import world

__all__ = ["world"]
