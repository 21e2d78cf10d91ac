"""What pages and terminals say about what is stored and how long it is kept, in the same words."""

CHORES = {"pass": "Retention", "sweep": "The sweep of orphans"}
ORPHANS_KEPT = "for a day"


def size(count: float) -> str:
    """Write a number of bytes in the largest unit that leaves a number of at least one."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def kept(
    *,
    logs_days: float | None,
    states_days: float | None,
    states_count: int,
    plans_days: float,
    archives_days: float | None,
    audit_days: float | None,
) -> dict[str, str]:
    """Return how long each kind is kept."""
    return {
        "logs": _days(logs_days),
        "states": f"{_days(states_days)}, at least {states_count} of each module",
        "plans": "while they are needed" if not plans_days else f"for {plans_days:g} days",
        "archives": _days(archives_days),
        "audit": _days(audit_days),
    }


def _days(days: float | None) -> str:
    return "forever" if days is None else f"for {days:g} days"
