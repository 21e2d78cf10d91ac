"""The same server and runner as in the tests of logs."""

from tests.server.app.fixtures import world
from tests.server.logs.conftest import crew

__all__ = ["crew", "world"]
