"""Shows the diff of a job's plan, or what differs between two states, on a terminal."""

from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from terracrew.api.job_views import JobView, PlanDiff
from terracrew.api.states import State, StateDiff
from terracrew.cli.printing import output
from terracrew.errors import NotFound
from terracrew.plan_diff.model import AttributeDiff, ResourceDiff
from terracrew.wording import plan_words

if TYPE_CHECKING:
    from terracrew.client.http import Api

DEFAULT_COUNT = 100
MAX_RESOURCES = 10_000
_PAGE_ROWS = 200
_MAX_VALUE_CHARACTERS = 200
_MAX_PARTS_SHOWN = 30
_SIGNS = {
    "replace": "±",
    "delete": "-",
    "forget": "×",
    "update": "~",
    "move": ">",
    "import": "<",
    "create": "+",
    "read": "=",
}
_STATE_WORDS = {"create": "added", "update": "changed", "delete": "removed"}
COLOURS = {"replace": "red", "delete": "red", "forget": "yellow", "update": "yellow", "create": "green"}


def read(api: "Api", job_id: str, *, search: str = "", limit: int = DEFAULT_COUNT) -> PlanDiff:
    """Return the diff with its first resources. Its `attempt` is None if the job has none."""
    after: str | None = None
    items: list[ResourceDiff] = []
    while True:
        count = min(_PAGE_ROWS, limit - len(items))
        found = api.get(f"/jobs/{job_id}/diff", PlanDiff, q=search or None, limit=count, after=after)
        items += found.items
        after = found.next
        if after is None or len(items) >= limit:
            return replace(found, items=items)


def show_if_any(api: "Api", job: JobView) -> bool:
    """Show the diff of a job on standard error, before a question about it. Returns False if there is none."""
    found = read(api, job.id)
    if job.kept_plan is None or found.attempt != job.kept_plan.attempt:
        return False  # another plan was made in the meantime; the server refuses a decision about this one
    show(found, job, err=True)
    return True


def show_states(found: StateDiff, *, err: bool = False) -> None:
    """Show what differs between two states, with `err` on standard error."""
    output.note(f"from {_name(found.before)} to {_name(found.after)}")
    _show(found, "use --limit or --search", "more resources differ", _STATE_WORDS, err=err)
    if not found.items and not found.outputs:
        output.note("nothing differs")


def show(found: PlanDiff, job: JobView, *, err: bool = False) -> None:
    if found.attempt is None:
        why = "it has made no plan with changes, or its log was removed since"
        raise NotFound(f"job {job.number} has no diff: {why}")
    _show(found, f"terracrew job show {job.number} --diff --limit {found.total}", "more resources", err=err)
    if found.drift:
        output.note(
            f"{found.drift:,} resources were changed outside: terracrew api get /jobs/{job.number}/diff?action=drift"
        )
    click.echo(output.plan(job.plan), err=err)


def _name(state: State) -> str:
    return f"version {state.version}" if state.version else state.id


def _show(
    found: PlanDiff | StateDiff, command: str, more: str, words: dict[str, str] | None = None, *, err: bool
) -> None:
    for each in found.items:
        _resource(each, words=words, err=err)
    if found.outputs:
        click.echo("outputs", err=err)
    for each in found.outputs:
        _attribute(each, 2, err=err)
    if hidden := found.total - len(found.items):
        output.note(f"{hidden:,} {more}: {command}")
    for each in found.left_out:
        output.note(output.text(each))


def _resource(each: ResourceDiff, *, err: bool, words: dict[str, str] | None) -> None:
    what = words[each.action] if words else plan_words.change(each.action, "")
    sign = click.style(_SIGNS[each.action], fg=COLOURS.get(each.action))
    click.echo(f"{sign} {click.style(output.text(each.address), bold=True)}  {what}", err=err)
    if each.why:
        click.echo(click.style(f"  {output.text(each.why)}", dim=True), err=err)
    for attribute in each.attributes:
        _attribute(attribute, 4, err=err)
    if each.left_out:
        click.echo(click.style(f"    {output.text(each.left_out)}", dim=True), err=err)
    if each.unchanged:
        count = f"{each.unchanged:,} unchanged attribute{'' if each.unchanged == 1 else 's'}"
        click.echo(click.style(f"    {count}", dim=True), err=err)


def _attribute(each: AttributeDiff, indent: int, *, err: bool) -> None:
    sign = click.style(_SIGNS[each.action], fg=COLOURS[each.action])
    forces = click.style("  # forces replacement", fg="red") if each.forces_replacement else ""
    name = output.text(each.name) if each.name else ""
    click.echo(f"{' ' * indent}{sign} {name}: {_change(each)}{forces}", err=err)
    shown = each.inside[:_MAX_PARTS_SHOWN]
    for part in shown:
        _attribute(part, indent + 4, err=err)
    if hidden := each.changed - len(shown):
        click.echo(f"{' ' * (indent + 4)}… and {hidden:,} more", err=err)


def _change(each: AttributeDiff) -> str:
    """Return the values of an attribute before and after, as far as they may be shown."""
    if each.kind:
        return plan_words.parts(each.kind, each.changed, each.total)
    if each.is_sensitive:
        return "(sensitive, known after apply)" if each.is_unknown else "(sensitive, changes)"
    before = _value(each.before, each.before_length)
    after = "(known after apply)" if each.is_unknown else _value(each.after, each.after_length)
    if each.action == "create":
        return after
    return before if each.action == "delete" else f"{before} → {after}"


def _value(value: str | None, length: int) -> str:
    shown = output.text(value or "null")
    if len(shown) <= _MAX_VALUE_CHARACTERS:
        return shown
    return f"{shown[:_MAX_VALUE_CHARACTERS]}… ({length or len(shown):,} characters)"
