"""`terracrew schedule`: what the server starts by itself at chosen times, at groups and modules."""

from typing import TYPE_CHECKING

import click

from terracrew.api.schedules import NewSchedule, ScheduleChange, ScheduleView, StartedSchedule
from terracrew.cli.arguments import name_completion, settings
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Invalid, NotFound
from terracrew.wording import schedule_words

if TYPE_CHECKING:
    from terracrew.client.http import Api

_schedule = click.argument("schedule")
_place = click.argument("place", shell_complete=name_completion.places)


@click.group("schedule", cls=LazyGroup)
def schedule() -> None:
    """Start plans, applies, destroys and drift checks at chosen times. PLACE is the path of a group or module.

    SCHEDULE is the id of a schedule, or its name if only one has it.
    """


@schedule.command("list", epilog=output.examples("terracrew schedule list", "terracrew schedule list platform/network"))
@click.argument("place", required=False, default="", shell_complete=name_completion.places)
@output.with_target
def list_schedules(target: Target, place: str) -> output.CommandResult:
    """List the schedules of PLACE itself; without it, all that you may see."""
    items = list(target.api().list("/schedules", ScheduleView, place=place))
    rows = [
        (each.name, each.path or "/", schedule_words.KINDS[each.kind], each.times, each.next_words, _last(each))
        for each in items
    ]
    notes = [f"{each.name} of {each.path or '/'}: {each.last_outcome}" for each in items if each.is_last_problem]
    empty = "no schedules: `terracrew schedule create PLACE NAME --kind DRIFT --cron '0 6 * * *'`"
    return output.listing(items, ("NAME", "PLACE", "STARTS", "TIMES", "NEXT", "LAST"), rows, empty=empty, notes=notes)


@schedule.command(
    "create",
    epilog=output.examples(
        "terracrew schedule create platform nightly --kind DRIFT \\",
        "    --cron '0 3 * * *' --time-zone Europe/Berlin",
        "terracrew schedule create shop/test evening --kind DESTROY \\",
        "    --cron '0 20 * * 1-5'",
    ),
)
@_place
@click.argument("name")
@settings.request_options(NewSchedule, "new", own=("place", "name"))
@output.with_target
def create(target: Target, new: NewSchedule) -> output.CommandResult:
    """Create a schedule called NAME of the group or module PLACE. It starts jobs as you, with the permissions that you have then."""
    made = target.api().post("/schedules", new, ScheduleView)
    return output.message(made, _sentence(made), f"Its times: {made.times}")


@schedule.command("show", epilog=output.examples("terracrew schedule show nightly"))
@_schedule
@output.with_target
def show(target: Target, schedule: str) -> output.CommandResult:
    """Show SCHEDULE with its next time, and what it started last or why it started nothing."""
    found = _find(target.api(), schedule)
    return output.details(
        found,
        [
            ("name", found.name),
            ("id", found.id),
            ("place", found.path or "/"),
            ("starts", schedule_words.KINDS[found.kind]),
            ("times", f"{found.cron} ({found.times})"),
            ("next", found.next_words),
            ("spread over", f"{found.jitter_minutes} minutes" if found.jitter_minutes else ""),
            ("made up within", f"{found.late_minutes} minutes"),
            ("runs as", found.changed_by_name),
            ("last", _last(found)),
            ("outcome", found.last_outcome),
        ],
    )


@schedule.command(
    "update",
    epilog=output.examples(
        "terracrew schedule update nightly --cron '0 4 * * *'",
        "terracrew schedule update nightly --no-enabled",
    ),
)
@_schedule
@settings.request_options(ScheduleChange)
@output.with_target
def update(target: Target, schedule: str, change: ScheduleChange) -> output.CommandResult:
    """Change SCHEDULE. From then on it starts jobs as you."""
    settings.read_changes(change)
    api = target.api()
    made = api.patch(_path(_find(api, schedule)), change, ScheduleView)
    return output.message(made, _sentence(made))


@schedule.command("delete", epilog=output.examples("terracrew schedule delete nightly"))
@_schedule
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@output.with_target
def delete(target: Target, schedule: str, yes: bool) -> output.CommandResult:
    """Delete SCHEDULE. What it has started goes on."""
    api = target.api()
    found = _find(api, schedule)
    if not yes:
        output.ask(f"The schedule {found.name} of {found.path or '/'} is deleted.", "Not deleted.")
    api.delete(_path(found))
    return output.message({"deleted": found.id}, f"deleted the schedule {found.name}")


@schedule.command("run", epilog=output.examples("terracrew schedule run nightly"))
@_schedule
@output.with_target
def run(target: Target, schedule: str) -> output.CommandResult:
    """Start now what SCHEDULE is for, as you. Its next time stays."""
    api = target.api()
    started = api.post(f"{_path(_find(api, schedule))}/run", {}, StartedSchedule)
    return output.message(started, started.outcome)


def _find(api: "Api", reference: str) -> ScheduleView:
    """Find a schedule by its id, or by its name if only one has it."""
    if reference.startswith("sch_"):
        return api.get(f"/schedules/{segment(reference)}", ScheduleView)
    found = [each for each in api.list("/schedules", ScheduleView) if each.name == reference]
    if not found:
        raise NotFound(f"there is no schedule {reference[:200]!r} that you may see: `terracrew schedule list`")
    if len(found) > 1:
        which = ", ".join(f"{each.id} of {each.path or '/'}" for each in found)
        raise Invalid(f"several schedules are called {reference[:200]!r}: name one by its id ({which})")
    return found[0]


def _path(found: ScheduleView) -> str:
    return f"/schedules/{segment(found.id)}"


def _last(found: ScheduleView) -> str:
    if found.last_at is None:
        return ""
    return f"{'nothing started, ' if found.is_last_problem else ''}{output.age(found.last_at)}"


def _sentence(found: ScheduleView) -> str:
    word = schedule_words.KINDS[found.kind].lower()
    return f"the schedule {found.name} of {found.path or '/'} ({word}) starts next: {found.next_words}"
