"""`terracrew state`: lists and prints states, and decides about quarantined ones."""

import click

from terracrew.cli.arguments import name_completion, numbers, references
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output, streams


@click.group(cls=LazyGroup)
def state() -> None:
    """List and print states; adopt or discard quarantined ones.

    A state from an attempt that had lost the right to write it is kept in quarantine, and so is one that the module's own
    backend did not accept. No job of its module runs until somebody has adopted or discarded it.
    """


@state.command("list")
@click.argument("module", shell_complete=name_completion.modules)
@click.option("--quarantined", is_flag=True, help="Only states that wait for a decision.")
@output.json_option
@pass_target
def list_states(target: Target, module: str, quarantined: bool, as_json: bool) -> None:
    """List the states of MODULE, newest first."""
    from terracrew.client.http import segment

    found = target.api().list(f"/modules/{segment(module)}/states")
    items = [item for item in found if not quarantined or item["status"] == "quarantined"]
    if as_json:
        return output.as_json(items)
    # A state in quarantine has no version and is named by its id; all others are named by their versions.
    rows = [
        (
            i["version"] or i["id"],
            i["status"],
            i["serial"],
            i.get("size"),
            f"attempt {i['attempt']}",
            output.age(i["created_at"]),
        )
        for i in items
    ]
    columns = ("STATE", "STATUS", "SERIAL", "BYTES", "WRITTEN BY", "ARRIVED")
    empty = f"{module} has no state in quarantine" if quarantined else f"{module} has no state yet"
    output.table(columns, rows, empty=empty)
    for item in items:
        if item.get("problem") and item["status"] == "quarantined":
            output.note(f"{item['id']} cannot be adopted: {output.text(item['problem'])}")
    return None


@state.command("show")
@click.argument("named", metavar="STATE")
@click.option(
    "--module", metavar="PATH", shell_complete=name_completion.modules, help="The module, if STATE is a version."
)
@pass_target
def show_state(target: Target, named: str, module: str | None) -> None:
    """Print the state STATE (an id, or a version with --module) as its engine wrote it. The audit log records this.

    On a terminal, control sequences are removed.
    """
    from terracrew.client.http import segment

    api = target.api()
    with streams.document_output() as stream:
        api.download(f"/states/{segment(references.state(api, named, module))}", stream)


@state.command("diff")
@click.argument("named", metavar="STATE")
@click.argument("other", metavar="[WITH]", required=False)
@click.option(
    "--module", metavar="PATH", shell_complete=name_completion.modules, help="The module, if STATE is a version."
)
@click.option("--search", metavar="TEXT", default="", help="Only resources that contain this text.")
@click.option(
    "--limit",
    type=numbers.Whole(1, 200),
    default=100,
    show_default=True,
    help="The number of resources to show.",
)
@output.json_option
@pass_target
def diff_states(
    target: Target, named: str, other: str | None, module: str | None, search: str, limit: int, as_json: bool
) -> None:
    """Show what changed in the state STATE (an id, or a version with --module) since WITH, or since the version before.

    Sensitive values are hidden. The audit log records that both states were read.
    """
    from terracrew.cli.commands.job import diff
    from terracrew.client.http import segment

    api = target.api()
    before = None if other is None else references.state(api, other, module)
    path = f"/states/{segment(references.state(api, named, module))}/diff"
    found = api.get(path, **{"with": before, "q": search or None, "limit": limit})
    if as_json:
        return output.as_json(found)
    return diff.show_states(found)


@state.command("adopt")
@click.argument("state_id", metavar="STATE")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def adopt(target: Target, state_id: str, yes: bool, as_json: bool) -> None:
    """Make the quarantined state STATE the current state of its module."""
    _decide(target, state_id, "adopt", "It becomes the current state, and the next job plans from it.", yes, as_json)


@state.command("discard")
@click.argument("state_id", metavar="STATE")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def discard(target: Target, state_id: str, yes: bool, as_json: bool) -> None:
    """Discard the quarantined state STATE. It can still be read."""
    _decide(
        target, state_id, "discard", "Resources that are only in this state are then no longer managed.", yes, as_json
    )


def _decide(target: Target, state_id: str, act: str, consequence: str, yes: bool, as_json: bool) -> None:
    from terracrew.client.http import segment

    if not yes:
        output.note(consequence)
        output.ask(f"{act.capitalize()} {state_id}?", "The state stays in quarantine.")
    after = target.api().post(f"/states/{segment(state_id)}/{act}")
    if as_json:
        return output.as_json(after)
    return click.echo(f"{state_id} with serial {after['serial']} is {after['status']}")
