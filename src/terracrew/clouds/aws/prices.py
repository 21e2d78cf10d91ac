"""List prices of AWS for what deployments make, in US dollars. Pure, so that pages can show them before anything is made.

Prices change, and accounts have discounts. The table is what AWS published for Linux on the day below; a region that is not in it has
no price here, rather than a wrong one.
"""

from datetime import date

import msgspec

from terracrew.clouds.model import Architecture, DeploymentSettings

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
