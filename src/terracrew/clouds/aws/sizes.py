"""The sizes that a task of Fargate can have. Pure, so that pages and commands can check them before anything is deployed."""

from terracrew.clouds.model import DeploymentSettings

_GB_MEGABYTES = 1024
_MEMORY: dict[int, tuple[int, ...]] = {
    256: (512, 1024, 2048),
    512: tuple(range(1024, 4096 + 1, _GB_MEGABYTES)),
    1024: tuple(range(2048, 8192 + 1, _GB_MEGABYTES)),
    2048: tuple(range(4096, 16384 + 1, _GB_MEGABYTES)),
    4096: tuple(range(8192, 30720 + 1, _GB_MEGABYTES)),
    8192: tuple(range(16384, 61440 + 1, 4 * _GB_MEGABYTES)),
    16384: tuple(range(32768, 122880 + 1, 8 * _GB_MEGABYTES)),
}
"""The memory in MB that goes with each number of CPU units."""
_RETENTION_DAYS = [
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653),
]
"""How long CloudWatch can keep logs; it accepts no other number of days."""


def problem(settings: DeploymentSettings) -> str:
    """Say what is wrong with a size, and which ones there are; empty if Fargate has it."""
    known = _MEMORY.get(settings.cpu_units)
    if known is None:
        counts = ", ".join(map(str, _MEMORY))
        return f"Fargate has no tasks with {settings.cpu_units} CPU units. Choose one of {counts} (1024 are one vCPU)"
    if settings.memory_mb not in known:
        return (
            f"Fargate has no tasks with {settings.cpu_units} CPU units and {settings.memory_mb} MB of memory. "
            f"With {settings.cpu_units} CPU units, choose {_words(known)} MB"
        )
    return ""


def retention_days(wanted_days: int) -> int:
    """Return the shortest time that CloudWatch offers and that is not shorter than the wanted one."""
    return next((days for days in _RETENTION_DAYS if days >= wanted_days), _RETENTION_DAYS[-1])


def _words(known: tuple[int, ...]) -> str:
    *others, most = known
    if len(others) < 4:
        return f"{', '.join(map(str, others))} or {most}"
    return f"{others[0]} to {most} in steps of {others[1] - others[0]}"
