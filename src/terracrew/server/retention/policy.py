"""How long stored data is kept. None means forever."""

import msgspec

from terracrew.settings.server import ServerSettings

DAY_SECONDS = 86400.0


class RetentionPolicy(msgspec.Struct, frozen=True):
    logs_days: float | None = None
    states_days: float | None = None
    states_count: int = 10
    """The number of newest states of a module that are always kept, regardless of their age."""
    plans_days: float = 0.0
    """How long a saved plan is kept after no attempt can need it any more."""
    archives_days: float | None = None
    """How long an archive is kept to which only ended jobs refer. An archive to which nothing refers is an orphan."""
    audit_days: float | None = None


def of(settings: ServerSettings) -> RetentionPolicy:
    return RetentionPolicy(
        settings.retain_logs_days,
        settings.retain_states_days,
        settings.retain_states_count,
        settings.retain_plans_days,
        settings.retain_archives_days,
        settings.retain_audit_days,
    )


class Tally(msgspec.Struct, frozen=True):
    count: int = 0
    bytes: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.count + other.count, self.bytes + other.bytes)


class Item(msgspec.Struct, frozen=True):
    """Something that is due to be removed."""

    id: str
    bytes: int
    number: int = 0
    object: str | None = None


def tally(items: list[Item]) -> Tally:
    return Tally(len(items), sum(item.bytes for item in items))


def newest_id(kind: str, time: float) -> str:
    """Return an id that sorts behind every id of this kind that was made until then, with a day of room for clocks that differ."""
    return f"{kind}_{max(0, int((time + DAY_SECONDS) * 1000)):012x}"
