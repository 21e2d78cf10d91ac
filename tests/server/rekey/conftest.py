"""A server with a crew."""

from tests.server.app.fixtures import world

__all__ = ["world"]
