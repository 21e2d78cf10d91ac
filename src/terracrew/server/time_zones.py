"""The time zones that people name, which every server has to know in the same way."""

from functools import lru_cache
from zoneinfo import ZoneInfo

from terracrew.errors import Invalid

_NOT_ZONES = ("localtime", "posixrules", "posix/", "right/", "Factory")
"""Files beside those of the zones. They are different or missing on another server, or count leap seconds."""


def zone(name: str) -> ZoneInfo:
    """Return a time zone of the IANA database; raise Invalid if it has none of this name."""
    try:
        if name.startswith(_NOT_ZONES):
            raise ValueError(name)
        return _zone(name)
    except (
        KeyError,
        ValueError,
        OSError,
    ):  # ZoneInfoNotFoundError is a KeyError; a folder of the database is an OSError
        raise Invalid.in_field(
            "time_zone", f"{name[:80]!r} is not a time zone: write its name in the IANA database, such as Europe/Berlin"
        ) from None


@lru_cache(maxsize=100)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
