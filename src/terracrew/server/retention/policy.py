"""How long stored data is kept. None means forever."""

import msgspec

from terracrew.api.operations import RetentionPolicy, Tally
from terracrew.settings.server import ServerSettings

DAY_SECONDS = 86400.0


def of(settings: ServerSettings) -> RetentionPolicy:
    return RetentionPolicy(
        settings.retain_logs_days,
        settings.retain_states_days,
        settings.retain_states_count,
        settings.retain_plans_days,
        settings.retain_archives_days,
        settings.retain_audit_days,
    )


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
