"""The audit log is tested in the same small world as identity."""

from tests.server.identity.conftest import cheap_passwords, world

__all__ = ["cheap_passwords", "world"]
