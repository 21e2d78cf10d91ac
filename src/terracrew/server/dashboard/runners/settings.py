"""The settings of a runner that the server knows: those that people set here, and what its instances reported."""

from typing import Literal

import msgspec

from terracrew.server.connections.configuration import HEARTBEAT_SECONDS
from terracrew.server.runners.model import Instance, RunnerView

Layer = Literal["dashboard", "default", "instance", "own"]
"""Where a value comes from: set here, the server's default, reported by an instance, or the runner's own settings, whose value
the server does not know."""


class SettingRow(msgspec.Struct, frozen=True):
    name: str
    """The name that the reference of the settings uses."""
    value: str
    """Empty if the server does not know it."""
    layer: Layer


def rows(runner: RunnerView) -> list[SettingRow]:
    """Return the settings that the server knows or could override, in a fixed order."""
    found = runner.configuration
    here = [each for each in runner.instances if each.is_connected]
    heartbeat = SettingRow("heartbeat_seconds", f"{HEARTBEAT_SECONDS:g}", "default")
    if found.heartbeat_seconds is not None:
        heartbeat = SettingRow("heartbeat_seconds", f"{found.heartbeat_seconds:g}", "dashboard")
    levels = [SettingRow(f"logging.log_level.{name}", level, "dashboard") for name, level in found.log_level.items()]
    return [
        heartbeat,
        *(levels or [SettingRow("logging.log_level", "", "own")]),
        _number("job_log_stream.batch_size_limit", found.batch_size_limit),
        _number("job_log_stream.period_seconds", found.period_seconds),
        *_reported("runner.capacity", here, {each.name: str(each.capacity) for each in here}),
        *_reported("executor.isolation", here, {each.name: each.isolation for each in here if each.isolation}),
    ]


def _number(name: str, value: float | None) -> SettingRow:
    return SettingRow(name, "", "own") if value is None else SettingRow(name, f"{value:g}", "dashboard")


def _reported(name: str, here: list[Instance], values: dict[str, str]) -> list[SettingRow]:
    """Return what the connected instances reported: one value if they agree, otherwise each with the name of its instance."""
    if not values:
        return []
    if len(set(values.values())) == 1 and len(values) == len(here):
        return [SettingRow(name, next(iter(values.values())), "instance")]
    return [SettingRow(name, ", ".join(f"{value} ({instance})" for instance, value in values.items()), "instance")]
