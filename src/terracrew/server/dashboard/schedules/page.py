"""What the pages of schedules show, and how they read it."""

import msgspec

from terracrew.api.groups import Group
from terracrew.api.schedules import ScheduleSettings, ScheduleView
from terracrew.server.dashboard import field_forms
from terracrew.server.dashboard.field_forms import FieldContext, FormField
from terracrew.server.dashboard.tree import inputs
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.schedules import service
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import places
from terracrew.wording import schedule_words

HERE = "/dashboard/schedules"
PAGE_ROWS = 50
ZONES = ("UTC", "Europe/Berlin", "Europe/London", "America/New_York", "America/Los_Angeles", "Asia/Tokyo")
"""The time zones that the form offers while somebody types. Every other one of the database can be typed, too."""
EMPTY = ScheduleSettings(name="", kind="DRIFT", cron="0 3 * * *")


class SchedulesPanel(msgspec.Struct, frozen=True):
    """The schedules of one place, on its page."""

    place: InputPlace
    schedules: list[ScheduleView]
    may_run: bool


class SchedulesPage(msgspec.Struct, frozen=True):
    schedules: list[ScheduleView]
    next: str | None
    after: str | None
    may_add: bool
    """Whether the reader may add a schedule of the whole organization."""


class SchedulePage(msgspec.Struct, frozen=True):
    """The form of a schedule, of which there may be none yet."""

    place: InputPlace
    groups: list[Group]
    """The groups on the way to the place, the organization first."""
    schedule: ScheduleView | None
    may_run: bool

    @property
    def settings(self) -> ScheduleSettings:
        return self.schedule or EMPTY


def shown() -> list[FormField]:
    """Return the fields of the form."""
    context = {
        "kind": FieldContext(options=tuple(schedule_words.KINDS.items())),
        "time_zone": FieldContext(offers=ZONES),
    }
    return field_forms.layout(ScheduleSettings, context=context)


async def read_list(tx: Tx, who: Principal, after: str | None) -> SchedulesPage:
    found = await service.listing(tx, who, "", after, PAGE_ROWS)
    may_add = await authorize.may(tx, who, Verb.JOB_RUN, authorize.organization(who.organization_id))
    return SchedulesPage(found.items, found.next, after, may_add)


async def read_new(tx: Tx, who: Principal, place: str) -> SchedulePage:
    """Return the form for a new schedule of a place in which the reader may run jobs."""
    at = await places.find(tx, who, place)
    await authorize.require(tx, who, Verb.JOB_RUN, _place(at))
    return SchedulePage(at, await inputs.lineage(tx, who, at), None, may_run=True)


async def read_one(tx: Tx, who: Principal, schedule_id: str) -> SchedulePage:
    found = await service.show(tx, who, schedule_id)
    at = await places.find(tx, who, found.group_id or found.module_id or "")
    may_run = await authorize.may(tx, who, Verb.JOB_RUN, _place(at))
    return SchedulePage(at, await inputs.lineage(tx, who, at), found, may_run)


async def panel(tx: Tx, who: Principal, at: InputPlace) -> SchedulesPanel:
    """Return the schedules of a place that the reader may see."""
    found = await service.listing(tx, who, at.id, None, PAGE_ROWS)
    return SchedulesPanel(at, found.items, await authorize.may(tx, who, Verb.JOB_RUN, _place(at)))


def _place(at: InputPlace) -> authorize.Place:
    make = authorize.module if at.kind == "module" else authorize.group
    return make(at.organization_id, at.path)
