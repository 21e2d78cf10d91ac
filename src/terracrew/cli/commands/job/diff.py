"""Shows the diff of a job's plan on a terminal."""

from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.printing import output
from terracrew.errors import NotFound
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
_COLOURS = {"replace": "red", "delete": "red", "forget": "yellow", "update": "yellow", "create": "green"}


def read(api: "Api", job_id: str, *, search: str = "", limit: int = DEFAULT_COUNT) -> dict[str, Any]:
    """Return the diff with its first resources. Its `attempt` is None if the job has none."""
    after: str | None = None
    found: dict[str, Any] = {}
    items: list[dict[str, Any]] = []
    while len(items) < limit:
        count = min(_PAGE_ROWS, limit - len(items))
        found = api.get(f"/jobs/{job_id}/diff", q=search or None, limit=count, after=after)
        items += found["items"]
        after = found["next"]
        if after is None:
            break
    return {**found, "items": items}


def show_if_any(api: "Api", job: dict[str, Any]) -> bool:
    """Show the diff of a job on standard error, before a question about it. Returns False if there is none."""
    found = read(api, job["id"])
    if found["attempt"] != job["kept_plan"]["attempt"]:
        return False  # another plan was made in the meantime; the server refuses a decision about this one
    show(found, job, err=True)
    return True


def show_states(found: dict[str, Any], *, err: bool = False) -> None:
    """Show what differs between two states, with `err` on standard error."""
    names = [
        f"version {each['version']}" if each["version"] else each["id"] for each in (found["before"], found["after"])
    ]
    output.note(f"from {names[0]} to {names[1]}")
    for each in found["items"]:
        _resource(each, words=_STATE_WORDS, err=err)
    _outputs(found, err=err)
    if hidden := found["total"] - len(found["items"]):
        output.note(f"{hidden:,} more resources differ: use --limit or --search")
    for each in found["left_out"]:
        output.note(output.text(each))
    if not found["items"] and not found["outputs"]:
        output.note("nothing differs")


def show(found: dict[str, Any], job: dict[str, Any], *, err: bool = False) -> None:
    if found["attempt"] is None:
        why = "it has made no plan with changes, or its log was removed since"
        raise NotFound(f"job {job['number']} has no diff: {why}")
    for each in found["items"]:
        _resource(each, err=err)
    _outputs(found, err=err)
    if hidden := found["total"] - len(found["items"]):
        output.note(f"{hidden:,} more resources: terracrew job show {job['number']} --diff --limit {found['total']}")
    for each in found["left_out"]:
        output.note(output.text(each))
    if found["drift"]:
        output.note(
            f"{found['drift']:,} resources were changed outside: terracrew api get /jobs/{job['number']}/diff?action=drift"
        )
    click.echo(output.plan(job.get("plan") or {}), err=err)


def _outputs(found: dict[str, Any], *, err: bool) -> None:
    if found["outputs"]:
        click.echo("outputs", err=err)
    for each in found["outputs"]:
        _attribute(each, 2, err=err)


def _resource(each: dict[str, Any], *, err: bool, words: dict[str, str] | None = None) -> None:
    action = each["action"]
    what = words[action] if words else plan_words.change(action, "")
    sign = click.style(_SIGNS[action], fg=_COLOURS.get(action))
    click.echo(f"{sign} {click.style(output.text(each['address']), bold=True)}  {what}", err=err)
    if each.get("why"):
        click.echo(click.style(f"  {output.text(each['why'])}", dim=True), err=err)
    for attribute in each.get("attributes") or ():
        _attribute(attribute, 4, err=err)
    if each.get("left_out"):
        click.echo(click.style(f"    {output.text(each['left_out'])}", dim=True), err=err)
    if unchanged := each.get("unchanged"):
        click.echo(
            click.style(f"    {unchanged:,} unchanged attribute{'' if unchanged == 1 else 's'}", dim=True), err=err
        )


def _attribute(each: dict[str, Any], indent: int, *, err: bool) -> None:
    sign = click.style(_SIGNS[each["action"]], fg=_COLOURS[each["action"]])
    forces = click.style("  # forces replacement", fg="red") if each.get("forces_replacement") else ""
    name = output.text(each["name"]) if each["name"] else ""
    click.echo(f"{' ' * indent}{sign} {name}: {_change(each)}{forces}", err=err)
    inside: list[dict[str, Any]] = each.get("inside") or []
    for part in inside[:_MAX_PARTS_SHOWN]:
        _attribute(part, indent + 4, err=err)
    if hidden := each.get("changed", 0) - min(len(inside), _MAX_PARTS_SHOWN):
        click.echo(f"{' ' * (indent + 4)}… and {hidden:,} more", err=err)


def _change(each: dict[str, Any]) -> str:
    """Return the values of an attribute before and after, as far as they may be shown."""
    if each.get("kind"):
        return plan_words.parts(each["kind"], each.get("changed", 0), each.get("total", 0))
    if each.get("is_sensitive"):
        return "(sensitive, known after apply)" if each.get("is_unknown") else "(sensitive, changes)"
    before = _value(each, "before")
    after = "(known after apply)" if each.get("is_unknown") else _value(each, "after")
    if each["action"] == "create":
        return after
    return before if each["action"] == "delete" else f"{before} → {after}"


def _value(each: dict[str, Any], side: str) -> str:
    shown = output.text(each.get(side) or "null")
    length = each.get(f"{side}_length") or len(shown)
    if len(shown) <= _MAX_VALUE_CHARACTERS:
        return shown
    return f"{shown[:_MAX_VALUE_CHARACTERS]}… ({length:,} characters)"
