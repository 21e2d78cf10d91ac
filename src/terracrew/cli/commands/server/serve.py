"""Starts a server with the settings that were given on the command line."""

from typing import TYPE_CHECKING, Any

from terracrew.cli.connection import local

if TYPE_CHECKING:
    from terracrew.server.settings import ServerSettings

GIVEN_KEY = "terracrew.server.given"


def serve(given: dict[str, Any], *, with_builtin_runner: bool) -> None:
    """Serve until the process is told to stop. Settings that are not given have their defaults."""
    from terracrew.server.main import run

    settings = settings_from(given)
    settings.check()
    host = "127.0.0.1" if settings.host in ("", "0.0.0.0", "::") else settings.host  # noqa: S104  (compared, not bound)
    with local.announced(f"http://{f'[{host}]' if ':' in host else host}:{settings.port}", settings.directory):
        run(settings, with_builtin_runner=with_builtin_runner)


def settings_from(given: dict[str, Any]) -> "ServerSettings":
    from terracrew.server.settings import ServerSettings

    return ServerSettings(**{name: value for name, value in given.items() if value not in (None, ())})
