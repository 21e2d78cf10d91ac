"""Uploads are tested through the API, by an attempt and by a person."""

from tests.server.state.conftest import crew, world

__all__ = ["crew", "world"]
