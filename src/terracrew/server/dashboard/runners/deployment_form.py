"""The form of a cloud-hosted runner: what is typed, what it means as settings of a deployment, and what that costs."""

import re
from typing import Any

import msgspec

from terracrew.clouds.aws import prices
from terracrew.clouds.model import CloudKind, DeploymentSettings
from terracrew.errors import Invalid
from terracrew.server.cloud_hosted.model import DeployAgain
from terracrew.server.dashboard import forms

CPU_UNITS_COUNT = 1024
MEGABYTES_COUNT = 1024
MINUTE_SECONDS = 60
_SIZES = ((256, 512), (512, 1024), (1024, 2048), (2048, 4096), (4096, 8192), (8192, 16384))
ARCHITECTURES = (("x86_64", "x86"), ("arm64", "ARM, about a fifth cheaper"))
_FIELDS = {"cpu_units": "size", "memory_mb": "size", "idle_seconds": "idle_minutes"}
_PLACE = re.compile(r"(?:settings\.)?(\w+): ")
"""How a message of the service begins that is about one field."""


class DeploymentForm(msgspec.Struct, frozen=True):
    """The values as they were typed, of what can be changed later, too. A box that is not checked sends nothing."""

    size: str = "1024/2048"
    architecture: str = "x86_64"
    subnets: str = ""
    has_public_address: bool = False
    is_spot: bool = False
    max_instances: str = "4"
    min_instances: str = "0"
    capacity: str = "1"
    idle_minutes: str = "5"
    image: str = ""
    job_role: str = ""
    log_days: str = "30"
    wakes_ahead: bool = False


class DeployForm(DeploymentForm, frozen=True):
    """The values of a runner that does not exist yet."""

    name: str = ""
    group: str = ""
    identity: str = ""
    description: str = ""
    tags: str = ""
    assign: bool = False


class Costs(msgspec.Struct, frozen=True):
    """What a runner costs, in US dollars by list prices."""

    kind: CloudKind
    asleep_a_month: float = 0.0
    awake_an_hour: float | None = None
    """Of one instance; None if the price is not known."""
    max_instances: int = 1
    published: str = ""

    @property
    def all_an_hour(self) -> float | None:
        return None if self.awake_an_hour is None else self.awake_an_hour * self.max_instances


def of_settings(settings: DeploymentSettings) -> DeploymentForm:
    """Return a deployment as its form shows it."""
    return DeploymentForm(
        size=f"{settings.cpu_units}/{settings.memory_mb}",
        architecture=settings.architecture,
        subnets=" ".join(settings.subnets),
        has_public_address=settings.has_public_address,
        is_spot=settings.is_spot,
        max_instances=str(settings.max_instances),
        min_instances=str(settings.min_instances),
        capacity=str(settings.capacity),
        idle_minutes=f"{settings.idle_seconds / MINUTE_SECONDS:g}",
        image=settings.image,
        job_role=settings.job_role,
        log_days=str(settings.log_days),
        wakes_ahead=settings.wakes_ahead,
    )


def values(form: DeploymentForm) -> dict[str, Any]:
    """Return what was typed under the names of the settings. What is left empty is left out. Raises Invalid with the field."""
    cpu, _, memory = form.size.partition("/")
    found: dict[str, Any] = {
        "cpu_units": cpu,
        "memory_mb": memory,
        "architecture": form.architecture,
        "subnets": forms.split(form.subnets),
        "has_public_address": form.has_public_address,
        "is_spot": form.is_spot,
        "image": form.image.strip(),
        "job_role": form.job_role.strip(),
        "wakes_ahead": form.wakes_ahead,
    }
    for name in ("max_instances", "min_instances", "capacity", "log_days"):
        if typed := getattr(form, name).strip():
            found[name] = typed
    if typed := form.idle_minutes.strip():
        try:
            found["idle_seconds"] = round(float(typed) * MINUTE_SECONDS)
        except (ValueError, OverflowError):
            raise Invalid("write a number of minutes", field="idle_minutes") from None
    return found


def settings(form: DeploymentForm) -> DeploymentSettings:
    """Return what was typed as settings. Raises Invalid with the field that has to be corrected."""
    return forms.convert(values(form), DeploymentSettings, _FIELDS)


def again(form: DeploymentForm) -> DeployAgain:
    """Return what was typed as a change of a deployment. Raises Invalid with the field that has to be corrected."""
    settings(form)
    return forms.convert(values(form), DeployAgain, _FIELDS)


def placed(error: Invalid) -> dict[str, str]:
    """Return the message of an error by the field of the form that it is about; under the empty name if that is not known."""
    if field := error.details.get("field"):
        return {str(field): error.message}
    found = _PLACE.match(error.message)
    name = _FIELDS.get(found[1], found[1]) if found else ""
    if found is None or name not in DeployForm.__struct_fields__:
        return {"": error.message}
    return {name: error.message[found.end() :]}


def sizes(chosen: str) -> list[tuple[str, str]]:
    """Return the sizes that the form offers, with the one that is chosen."""
    found = [(f"{cpu}/{memory}", _size_words(cpu, memory)) for cpu, memory in _SIZES]
    cpu, _, memory = chosen.partition("/")
    is_known = any(value == chosen for value, _ in found)
    if not is_known and cpu.isascii() and cpu.isdecimal() and memory.isascii() and memory.isdecimal():
        found.append((chosen, _size_words(int(cpu[:9]), int(memory[:9]))))
    return found


def _size_words(cpu_units: int, memory_mb: int) -> str:
    return f"{cpu_units / CPU_UNITS_COUNT:g} vCPU / {memory_mb / MEGABYTES_COUNT:g} GB"


def costs(kind: CloudKind, region: str, chosen: DeploymentSettings) -> Costs:
    """Return what a runner with these settings costs, asleep and awake."""
    if kind != "aws":
        return Costs(kind, max_instances=chosen.max_instances)
    return Costs(
        kind,
        prices.asleep_dollars_a_month(chosen),
        prices.awake_dollars_an_hour(region, chosen),
        chosen.max_instances,
        f"{prices.PUBLISHED_ON:%-d %b %Y}",
    )
