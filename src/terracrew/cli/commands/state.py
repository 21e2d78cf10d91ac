"""`terracrew state`: lists, prints, imports and restores states, and decides about quarantined ones."""

from typing import TYPE_CHECKING, BinaryIO

import click

from terracrew.api.states import State, StateDiff
from terracrew.cli.arguments import name_completion, options, references, values
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output, progress, streams
from terracrew.client.address import segment
from terracrew.errors import Invalid, RateLimited, TooLarge, Unavailable

if TYPE_CHECKING:
    from terracrew.client.http import Api


_CHANGES_WAIT = "Each change waits for an approval until a job has written the next state."


@click.group(cls=LazyGroup)
def state() -> None:
    """List, print, import and restore states; adopt or discard quarantined ones.

    A state from an attempt that had lost the right to write it is kept in quarantine, and so is one that the module's own
    backend did not accept. No job of its module runs until somebody has adopted or discarded it.
    """


@state.command("list")
@click.argument("module", shell_complete=name_completion.modules)
@click.option("--quarantined", is_flag=True, help="Only states that wait for a decision.")
@output.with_target
def list_states(target: Target, module: str, quarantined: bool) -> output.CommandResult:
    """List the states of MODULE, newest first."""
    found = target.api().list(f"/modules/{segment(module)}/states", State)
    items = [item for item in found if not quarantined or item.status == "quarantined"]
    # A state in quarantine has no version and is named by its id; all others are named by their versions.
    rows = [
        (
            i.version or i.id,
            i.status,
            i.serial,
            i.size,
            i.origin if i.brought_by else f"attempt {i.attempt}",
            output.age(i.created_at),
        )
        for i in items
    ]
    columns = ("STATE", "STATUS", "SERIAL", "BYTES", "WRITTEN BY", "ARRIVED")
    empty = f"{module} has no state in quarantine" if quarantined else f"{module} has no state yet"
    notes = [
        f"{item.id} cannot be adopted: {output.text(item.problem)}"
        for item in items
        if item.problem and item.status == "quarantined"
    ]
    return output.listing(items, columns, rows, empty=empty, notes=notes)


@state.command("show")
@click.argument("named", metavar="STATE")
@options.module("The module, if STATE is a version.")
@pass_target
def show_state(target: Target, named: str, module: str | None) -> None:
    """Print the state STATE (an id, or a version with --module) as its engine wrote it. The audit log records this.

    On a terminal, control sequences are removed.
    """
    api = target.api()
    with streams.document_output() as stream:
        api.download(f"/states/{segment(references.state(api, named, module))}", stream)


@state.command("pull")
@click.argument("module", shell_complete=name_completion.modules)
@pass_target
def pull_state(target: Target, module: str) -> None:
    """Print the current state of MODULE as its engine wrote it. The audit log records this.

    On a terminal, control sequences are removed.
    """
    with streams.document_output() as stream:
        target.api().download(f"/modules/{segment(module)}/state", stream)


@state.command("push", epilog=output.examples("terracrew state push platform/network state.json"))
@click.argument("module", shell_complete=name_completion.modules)
@click.argument("file", type=click.File("rb"))
@click.option("--force", is_flag=True, help="Also if it does not continue the state that MODULE has.")
@output.with_target
def push_state(target: Target, module: str, file: BinaryIO, force: bool) -> output.CommandResult:
    """Write FILE as the state of MODULE, under its lock, as an engine at this terminal would. `-` reads standard input.

    FILE must have the same lineage as the current state and a higher serial. `state import` is for a state from elsewhere: after it,
    what is created waits for an approval.
    """
    from terracrew.cli.commands import state_changes

    made = state_changes.push(target.api(), module, file.read(), is_forced=force)
    return output.message(made, f"wrote version {made.version} of the state of {module}, with serial {made.serial}")


@state.command("mv", epilog=output.examples("terracrew state mv platform/network aws_vpc.old aws_vpc.new"))
@click.argument("module", shell_complete=name_completion.modules)
@click.argument("source", metavar="FROM")
@click.argument("destination", metavar="TO")
@output.with_target
def move_resource(target: Target, module: str, source: str, destination: str) -> output.CommandResult:
    """Give a resource in the state of MODULE another address, under its lock. The engine on this machine does it."""
    from terracrew.cli.commands import state_changes

    made = state_changes.change(target.api(), module, "mv", (source, destination))
    return output.message(made, f"moved {source} to {destination}; version {made.version} is the state of {module} now")


@state.command("rm", epilog=output.examples("terracrew state rm platform/network aws_vpc.old"))
@click.argument("module", shell_complete=name_completion.modules)
@click.argument("addresses", metavar="ADDRESS", nargs=-1, required=True)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def forget_resources(target: Target, module: str, addresses: tuple[str, ...], yes: bool) -> output.CommandResult:
    """Remove resources from the state of MODULE, under its lock. The resources continue to exist, and nothing manages them then."""
    from terracrew.cli.commands import state_changes

    if not yes:
        output.ask(f"Forget {', '.join(addresses)} in {module}?", "The state stays as it is.")
    made = state_changes.change(target.api(), module, "rm", addresses)
    return output.message(made, f"forgot {', '.join(addresses)}; version {made.version} is the state of {module} now")


@state.command("diff")
@click.argument("named", metavar="STATE")
@click.argument("other", metavar="[WITH]", required=False)
@options.module("The module, if STATE is a version.")
@click.option("--search", metavar="TEXT", default="", help="Only resources that contain this text.")
@options.limit(200, 100, "The number of resources to show.")
@output.with_target
def diff_states(
    target: Target, named: str, other: str | None, module: str | None, search: str, limit: int
) -> output.CommandResult:
    """Show what changed in the state STATE (an id, or a version with --module) since WITH, or since the version before.

    Sensitive values are hidden. The audit log records that both states were read.
    """
    from terracrew.cli.commands.job import diff

    api = target.api()
    before = None if other is None else references.state(api, other, module)
    path = f"/states/{segment(references.state(api, named, module))}/diff"
    found = api.get(path, StateDiff, **{"with": before, "q": search or None, "limit": limit})
    return output.CommandResult(found, lambda: diff.show_states(found))


@state.command(
    "import",
    epilog=output.examples(
        "tofu state pull > state.json",
        "terracrew state import platform/network state.json",
    ),
)
@click.argument("module", shell_complete=name_completion.modules)
@click.argument("file", type=click.File("rb"))
@click.option("--force", is_flag=True, help="Also if it does not continue the state that MODULE has.")
@output.with_target
def import_state(target: Target, module: str, file: BinaryIO, force: bool) -> output.CommandResult:
    """Make FILE, a state of OpenTofu or Terraform, the current state of MODULE. `-` reads standard input.

    `tofu state pull` prints the state of a configuration, whatever its backend is. Nothing else is changed: the next plan of
    MODULE tells whether its source and its inputs match the state. If MODULE has a state, FILE must have the same lineage and
    a higher serial. If FILE takes the place of a state, each change of MODULE waits for an approval until a job has written the
    next one.
    """
    made = upload(target.api(), module, file.read(), force=force)
    notes = [_CHANGES_WAIT] if (made.version or 0) > 1 else []
    notes.append(f"`terracrew job run {module} --follow` plans from it. It should find nothing to change.")
    text = f"imported the state with serial {made.serial} as version {made.version} of {module}"
    return output.message(made, text, *notes)


@state.command(
    "rollback",
    epilog=output.examples(
        "terracrew state list platform/network",
        "terracrew state rollback platform/network 7",
    ),
)
@click.argument("module", shell_complete=name_completion.modules)
@click.argument("version", type=values.WholeNumber(1))
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--no-plan", is_flag=True, help="Do not plan afterwards.")
@output.with_target
def rollback(target: Target, module: str, version: int, yes: bool, no_plan: bool) -> output.CommandResult:
    """Make the content of VERSION the current state of MODULE again, as a new version, and plan.

    It first shows what differs from the current state. Resources are not touched: what was created since is no longer in the
    state, and the plan shows that it would be created again. Until a job has written the next state, each change of MODULE waits
    for an approval.
    """
    from terracrew.cli.commands.job import diff, follow

    api = target.api()
    state_id = references.state(api, str(version), module)
    if not yes:
        found = api.list(f"/modules/{segment(module)}/states", State)
        current = next((each.id for each in found if each.status == "current"), None)
        try:
            query = {"with": current, "limit": 100}
            diff.show_states(api.get(f"/states/{segment(state_id)}/diff", StateDiff, **query), err=True)
        except (Invalid, TooLarge, Unavailable, RateLimited) as error:
            output.note(f"What differs from the current state cannot be shown: {error.message}")
        output.ask(f"Restore version {version} of the state of {module}?", "The state stays as it is.")
    made = api.post(f"/states/{segment(state_id)}/restore", None, State)

    def show() -> None:
        click.echo(f"restored version {version} as version {made.version} of {module}, with serial {made.serial}")
        output.note(_CHANGES_WAIT)
        if not no_plan:
            follow.run(api, module, is_silent=False)

    return output.CommandResult(made, show)


@state.command("adopt")
@click.argument("state_id", metavar="STATE")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def adopt(target: Target, state_id: str, yes: bool) -> output.CommandResult:
    """Make the quarantined state STATE the current state of its module."""
    return _decide(target, state_id, "adopt", "It becomes the current state, and the next job plans from it.", yes)


@state.command("discard")
@click.argument("state_id", metavar="STATE")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def discard(target: Target, state_id: str, yes: bool) -> output.CommandResult:
    """Discard the quarantined state STATE. It can still be read."""
    return _decide(
        target, state_id, "discard", "Resources that are only in this state are then no longer managed.", yes
    )


def _decide(target: Target, state_id: str, act: str, consequence: str, yes: bool) -> output.CommandResult:
    if not yes:
        output.note(consequence)
        output.ask(f"{act.capitalize()} {state_id}?", "The state stays in quarantine.")
    after = target.api().post(f"/states/{segment(state_id)}/{act}", None, State)
    return output.message(after, f"{state_id} with serial {after.serial} is {after.status}")


def upload(api: "Api", module: str, content: bytes, *, force: bool, changes_backend: bool = False) -> State:
    """Make a state the current one of a module, and return what the server says about it."""
    asked = [name for name, is_asked in (("force", force), ("change_backend", changes_backend)) if is_asked]
    query = "?" + "&".join(f"{name}=true" for name in asked) if asked else ""

    with progress.of_bytes() as report:
        return api.upload_in_parts(
            f"/modules/{segment(module)}/states{query}",
            content,
            "application/json",
            State,
            target="state",
            progress=lambda arrived: report("uploading", arrived, len(content)),
        )
