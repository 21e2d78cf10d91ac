"""List prices of AWS for what deployments make, in US dollars. Pure, so that pages can show them before anything is made.

Prices change, and accounts have discounts. The table is what AWS published for Linux on the day below; a region that is not in it has
no price here, rather than a wrong one.
"""

from datetime import date

import msgspec

from terracrew.api.deployments import Architecture, DeploymentSettings

PUBLISHED_ON = date(2026, 9, 23)
HOURS_A_MONTH_COUNT = 730
SECRET_MONTH_RATE = 0.40
PUBLIC_ADDRESS_HOUR_RATE = 0.005
SPOT_RATIO = 0.35
"""What Spot costs of the usual price, about: it changes with demand."""
_CPU_UNITS_COUNT = 1024
_MEGABYTES_COUNT = 1024
_GB_BYTES = 10**9


class FargatePrice(msgspec.Struct, frozen=True):
    """Dollars an hour for one vCPU, and for one GB of memory."""

    vcpu: float
    memory: float


_X86: dict[str, FargatePrice] = {
    **dict.fromkeys(("us-east-1", "us-east-2", "us-west-2", "eu-west-1"), FargatePrice(0.04048, 0.004445)),
    **dict.fromkeys(("eu-central-1", "eu-west-2"), FargatePrice(0.04656, 0.00511)),
    **dict.fromkeys(("ap-southeast-1", "ap-northeast-1"), FargatePrice(0.05056, 0.00553)),
    "sa-east-1": FargatePrice(0.0696, 0.0076),
}
_ARM: dict[str, FargatePrice] = {
    **dict.fromkeys(("us-east-1", "us-east-2", "us-west-2", "eu-west-1"), FargatePrice(0.03238, 0.00356)),
    **dict.fromkeys(("eu-central-1", "eu-west-2"), FargatePrice(0.03725, 0.00409)),
    **dict.fromkeys(("ap-southeast-1", "ap-northeast-1"), FargatePrice(0.04045, 0.00442)),
    "sa-east-1": FargatePrice(0.0557, 0.00612),
}
_STORED_GB: dict[str, float] = {
    **dict.fromkeys(("us-east-1", "us-east-2", "us-west-2", "eu-west-1", "ap-southeast-1"), 0.03),
    "eu-central-1": 0.0324,
    "ap-northeast-1": 0.033,
}
"""Dollars a month for a GB of logs that CloudWatch keeps."""


def task_dollars_an_hour(
    region: str, cpu_units: int, memory_mb: int, architecture: Architecture, *, is_spot: bool
) -> float | None:
    """Return what a task costs while it runs; None if the price is not known."""
    price = (_ARM if architecture == "arm64" else _X86).get(region)
    if price is None:
        return None
    full = price.vcpu * cpu_units / _CPU_UNITS_COUNT + price.memory * memory_mb / _MEGABYTES_COUNT
    return full * SPOT_RATIO if is_spot else full


def awake_dollars_an_hour(region: str, settings: DeploymentSettings) -> float | None:
    """Return what one instance with these settings costs while it runs; None if the price is not known."""
    task = task_dollars_an_hour(
        region, settings.cpu_units, settings.memory_mb, settings.architecture, is_spot=settings.is_spot
    )
    address = PUBLIC_ADDRESS_HOUR_RATE if settings.has_public_address else 0.0
    return None if task is None else task + address


def asleep_dollars_a_month(settings: DeploymentSettings) -> float:
    """Return what a runner costs that has no instance, without its logs."""
    return SECRET_MONTH_RATE if settings.credential == "secret" else 0.0


def log_dollars_a_month(region: str, stored_bytes: int) -> float | None:
    """Return what it costs to keep logs; None if the price is not known."""
    price = _STORED_GB.get(region)
    return None if price is None else price * stored_bytes / _GB_BYTES


def regions() -> list[str]:
    """Return the regions whose prices are known."""
    return sorted(_X86.keys() & _ARM.keys())


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


def find_size_problem(settings: DeploymentSettings) -> str:
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
