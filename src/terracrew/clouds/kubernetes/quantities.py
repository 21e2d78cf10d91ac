"""Amounts as Kubernetes writes them, and how many pods a quota has room for."""

from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from terracrew.api.deployments import DeploymentSettings
from terracrew.kubernetes_api.objects import ResourceQuotaStatus

_SUFFIXES = {
    **{name: Decimal(1024) ** power for power, name in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
    **{name: Decimal(1000) ** power for power, name in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
}
_MANY_PODS_COUNT = 1000
"""More instances than a runner can have."""


class QuotaRoom(NamedTuple):
    pods: int
    words: str
    """What the quota has least of."""


def parse(text: str) -> Decimal | None:
    """Return an amount such as `500m`, `2Gi` or `1e3`; None if it is none."""
    number, factor = text, Decimal(1)
    for suffix, times in _SUFFIXES.items():
        if text.endswith(suffix):
            number, factor = text.removesuffix(suffix), times
            break
    try:
        return Decimal(number) * factor
    except InvalidOperation:
        return None


def room(quota: ResourceQuotaStatus, settings: DeploymentSettings) -> QuotaRoom:
    """Return how many further pods of this size a quota allows."""
    cpu, memory = Decimal(settings.cpu_units) / 1024, Decimal(settings.memory_mb) * 1024 * 1024
    needs = {
        "pods": Decimal(1),
        "count/pods": Decimal(1),
        **dict.fromkeys(("cpu", "requests.cpu", "limits.cpu"), cpu),
        **dict.fromkeys(("memory", "requests.memory", "limits.memory"), memory),
    }
    found = [QuotaRoom(_MANY_PODS_COUNT, "")]
    for name, need in needs.items():
        hard, used = parse(quota.hard.get(name, "")), parse(quota.used.get(name, "0"))
        if hard is not None and used is not None:
            words = f"{quota.used.get(name, '0')} of {quota.hard[name]} {name} are used"
            found.append(QuotaRoom(max(0, int((hard - used) / need)), words))
    return min(found, key=lambda each: each.pods)
