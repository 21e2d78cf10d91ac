"""The settings that operators change while a runner's processes run. The runner's own settings apply to everything that is not set here."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.errors import Invalid
from terracrew.protocol.limits import MAX_LOG_BATCH_EVENTS, MAX_LOG_PERIOD_SECONDS

HEARTBEAT_SECONDS = 10.0
MAX_CATEGORIES = 50

# An instance is offline after a silent minute, so it sends at least two heartbeats in that time, and at most one a second.
Seconds = Annotated[float, msgspec.Meta(ge=1, le=30)]
Category = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_.]{1,100}$(?!\n)")]
Level = Literal["Trace", "Debug", "Information", "Warning", "Error", "Critical", "None"]
BatchSize = Annotated[int, msgspec.Meta(ge=1, le=MAX_LOG_BATCH_EVENTS)]
Period = Annotated[float, msgspec.Meta(gt=0, le=MAX_LOG_PERIOD_SECONDS)]


class Configuration(msgspec.Struct, frozen=True, kw_only=True):
    heartbeat_seconds: Seconds | None = None
    """The seconds between two heartbeats of its processes; null means 10."""
    log_level: dict[Category, Level] = {}
    """A map from category to level, which overrides the runner's own. `Default` applies if no longer name matches."""
    batch_size_limit: BatchSize | None = None
    """Events of a job's log that are shipped together, while nobody watches."""
    period_seconds: Period | None = None
    """How long an event of a job's log waits for its batch to fill, while nobody watches."""

    @property
    def heartbeat(self) -> float:
        return self.heartbeat_seconds or HEARTBEAT_SECONDS

    @property
    def levels(self) -> dict[str, str]:
        return {**self.log_level}


UNCONFIGURED = Configuration()


class ConfigurationChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings to change. Settings that are left out stay, and null restores the runner's own setting."""

    heartbeat_seconds: Seconds | UnsetType | None = UNSET
    log_level: dict[Category, Level | None] | UnsetType | None = UNSET
    """Categories that are left out stay, too."""
    batch_size_limit: BatchSize | UnsetType | None = UNSET
    period_seconds: Period | UnsetType | None = UNSET


def changed(before: Configuration, change: ConfigurationChange | None) -> Configuration:
    """Return the configuration after a change; None removes everything."""
    if change is None:
        return UNCONFIGURED
    given = {field: value for field in change.__struct_fields__ if (value := getattr(change, field)) is not UNSET}
    if "log_level" in given:
        levels = {**before.log_level, **given["log_level"]} if given["log_level"] else {}
        given["log_level"] = {name: level for name, level in sorted(levels.items()) if level is not None}
        if len(given["log_level"]) > MAX_CATEGORIES:
            raise Invalid(f"log_level: levels can be set for up to {MAX_CATEGORIES} categories")
    return msgspec.structs.replace(before, **given)
