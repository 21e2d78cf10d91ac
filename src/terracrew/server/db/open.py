"""Opens the database that an address names."""

from collections.abc import Callable
from pathlib import Path

from terracrew.errors import Invalid
from terracrew.server.db.seam import Database
from terracrew.server.db.sqlite.database import open_sqlite


async def open_database(url: str, clock: Callable[[], float] | None = None) -> Database:
    """Open `sqlite:///path`, a plain path, or `postgresql://…`, and bring its tables up to date.

    `clock` tells the time instead of the database's own: a test lets half an hour pass in no time.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return await open_sqlite(Path(url), clock)
    if scheme == "sqlite":
        if not rest.startswith("/"):
            raise Invalid(f"{url}: write sqlite:///relative/path or sqlite:////absolute/path")
        return await open_sqlite(Path(rest[1:]), clock)
    if scheme in ("postgresql", "postgres"):
        return await _postgres(url, clock)
    raise Invalid(f"{scheme}:// is not a supported database: use sqlite:///path or postgresql://…")


async def _postgres(url: str, clock: Callable[[], float] | None) -> Database:
    try:
        # The driver is an optional dependency, so it is imported only if it is needed.
        from terracrew.server.db.postgres.database import open_postgres
    except ModuleNotFoundError as missing:
        if missing.name != "asyncpg":
            raise
        raise Invalid("PostgreSQL needs its driver: pip install 'terracrew[postgres]'") from missing
    return await open_postgres(url, clock)
