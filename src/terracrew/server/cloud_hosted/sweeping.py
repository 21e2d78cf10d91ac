"""Finds instances in a cloud that nobody owns: they cost money, and no job of theirs can end well. It is pure.

An instance is never among them while its process is connected, was connected lately, or has a job, whoever started it. A database
that was set back has lost rows of instances that run, so one without a row is spared until that is settled.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from terracrew.api.deployments import CloudInstance
from terracrew.clouds.model import InstanceState

HELLO_SECONDS = 600.0
"""An instance that did not say hello for this long is given up."""
LEAVE_SECONDS = 180.0
"""How long the cloud may take to end an instance whose process has ended."""


class Ownerless(msgspec.Struct, frozen=True):
    """An instance to stop, and why."""

    name: str
    reference: str
    reason: str


def ownerless(
    states: Iterable[InstanceState],
    rows: Mapping[str, CloudInstance],
    spared: Collection[str],
    now: datetime,
    *,
    knows_all: bool = True,
) -> list[Ownerless]:
    """Return the instances that nobody owns. `rows` are all known ones of the runner by name, also those that have ended.

    `knows_all`: whether an instance without a row is certainly one that the server has not asked for.
    """
    found: list[Ownerless] = []
    for state in states:
        row = rows.get(state.instance)
        if state.phase == "ended" or state.instance in spared or (row is None and not knows_all):
            continue
        reason = _of_unknown(state, now) if row is None else _of_row(row, now)
        if reason:
            found.append(Ownerless(state.instance, state.reference, reason))
    return found


def is_overdue(row: CloudInstance, spared: Collection[str], now: datetime) -> bool:
    """Return whether an instance had all the time to say hello, and did not."""
    is_waited_for = row.status in ("wanted", "starting") and row.name not in spared
    return is_waited_for and now - row.wanted_at > timedelta(seconds=HELLO_SECONDS)


def is_forgotten(row: CloudInstance, spared: Collection[str], now: datetime) -> bool:
    """Return whether an instance is over that once ran, if its cloud lists the others and does not know it any more."""
    has_run = row.status in ("running", "leaving") and row.name not in spared
    return has_run and (row.hello_at is None or now - row.hello_at > timedelta(seconds=HELLO_SECONDS))


def _of_row(row: CloudInstance, now: datetime) -> str:
    if row.ended_at is not None and now - row.ended_at > timedelta(seconds=LEAVE_SECONDS):
        return f"it was not needed any more: {row.end_reason}"
    return ""


def _of_unknown(state: InstanceState, now: datetime) -> str:
    """Return why an instance is ended that has the marks of the runner and that the server has not asked for, if it is."""
    if state.started_at is not None and now - state.started_at > timedelta(seconds=HELLO_SECONDS):
        return f"the server has not asked for it, and it did not say hello in {HELLO_SECONDS / 60:.0f} minutes"
    return ""
