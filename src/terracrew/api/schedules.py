"""Schedules: what the server starts by itself, when, at which group or module, and what became of it last."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.fields import Field

ScheduleKind = Literal["PLAN", "APPLY", "DESTROY", "DRIFT"]
"""What is started. DRIFT checks what was changed outside of the engine."""
MAX_NAME_CHARACTERS = 100
MAX_CRON_CHARACTERS = 200
MAX_JITTER_MINUTES = 1_440
MAX_LATE_MINUTES = 1_440


class ScheduleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What people choose about a schedule."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME_CHARACTERS), Field(metavar="NAME")]
    """What people call it. Each name exists once in a group or module."""
    kind: Annotated[ScheduleKind, Field(label="What it starts")]
    """What is started. DRIFT checks what was changed outside of the engine; the others are jobs, with all of their approvals."""
    cron: Annotated[str, msgspec.Meta(max_length=MAX_CRON_CHARACTERS), Field(label="Times (cron)", metavar="CRON")]
    """When, as the five fields of cron: minute, hour, day of the month, month, day of the week. `0 6 * * 1-5` is at 06:00 on workdays."""
    time_zone: Annotated[str, msgspec.Meta(max_length=100), Field(metavar="ZONE")] = "UTC"
    """The time zone of these times, by its name in the IANA database, such as Europe/Berlin."""
    jitter_minutes: Annotated[
        int, msgspec.Meta(ge=0, le=MAX_JITTER_MINUTES), Field(label="Spread over (minutes)", metavar="MINUTES")
    ] = 0
    """It starts up to so many minutes later, so that not everything begins at once. The checks of a group are spread over this time."""
    late_minutes: Annotated[
        int, msgspec.Meta(ge=0, le=MAX_LATE_MINUTES), Field(label="Make up within (minutes)", metavar="MINUTES")
    ] = 60
    """A start that was missed, because no server was running, is made up once if it is at most so many minutes late."""
    is_refresh_only: Annotated[bool, Field(label="Only what was changed outside", option="--refresh-only")] = True
    """For DRIFT: compare what exists with the state only. Otherwise a full plan is made, which also has changes of the configuration
    that nobody has applied."""
    is_enabled: Annotated[bool, Field(label="Enabled", option="--enabled")] = True
    """Whether it starts anything by itself."""


class NewSchedule(ScheduleSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule to create."""

    place: Annotated[str, msgspec.Meta(max_length=2_000)]
    """The path or id of a group or module; `/` is the whole organization."""


@fields.change
class ScheduleChange(ScheduleSettings, frozen=True, kw_only=True):
    """What to change; what is left out stays. From then on the schedule runs with the permissions of the one who changed it."""


class Schedule(ScheduleSettings, frozen=True, kw_only=True):
    """A schedule."""

    id: str
    organization_id: str
    group_id: str | None
    """The group whose modules it is about; null if it is about one module."""
    module_id: str | None
    created_at: datetime
    changed_by: str
    """The id of the person or service account that made it or changed it last. It starts jobs with the permissions that they have then."""
    changed_by_name: str
    changed_at: datetime
    next_at: datetime | None = None
    """When it starts next; null if it is not enabled, or if its times never come."""
    last_at: datetime | None = None
    """When it was last due or run."""
    last_outcome: str = ""
    """What it started then, or why it started nothing, in words."""
    is_last_problem: bool = False
    """Whether it should have started something and did not."""
    last_job_id: str | None = None
    last_group_run_id: str | None = None


class ScheduleView(Schedule, frozen=True, kw_only=True):
    """A schedule as people see it."""

    path: str
    """The path of its group or module; empty for the organization."""
    times: str
    """Its times in words."""
    next_words: str
    """When it starts next, in words."""


class StartedSchedule(msgspec.Struct, frozen=True):
    """What somebody has started by a schedule."""

    outcome: str
    """What was started, in words."""
    job_id: str | None = None
    group_run_id: str | None = None
