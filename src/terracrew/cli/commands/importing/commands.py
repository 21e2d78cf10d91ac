"""`terracrew import`: the commands, one for each source."""

from pathlib import Path

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.arguments.options import combine
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output

import_options = combine(
    click.option("--plan", "only_plan", is_flag=True, help="Only show what would be made."),
    click.option("--yes", is_flag=True, help="Do not ask."),
)


@click.group("import", cls=LazyGroup)
def import_() -> None:
    """Make modules of what other products and folders have: workspaces, projects, states.

    Each command shows first what it would make, and what cannot be taken over. It never changes a module that is here and was not
    made by the same import, and a second run makes nothing twice. The source stays as it is.
    """


@import_.command(
    "state",
    epilog=output.examples(
        "terracrew import state ./live --into platform --plan",
        "terracrew import state ./live --into platform --source archive",
    ),
)
@click.argument(
    "paths", metavar="DIRECTORY|FILE...", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--into",
    default="/",
    metavar="GROUP",
    shell_complete=name_completion.groups,
    help="The group for the modules. `/`, the default, is the organization.",
)
@click.option(
    "--source",
    "kind",
    type=click.Choice(["git", "archive", "local"]),
    default="git",
    help="Where modules get their files from: the remote of the checkout (the default), an upload, or the folder on a runner of "
    "this machine.",
)
@click.option("--engine", type=click.Choice(["tofu", "terraform"]), help="By default the one that the lock file names.")
@import_options
@output.with_target
def import_states(
    target: Target,
    paths: tuple[Path, ...],
    into: str,
    kind: str,
    engine: str | None,
    only_plan: bool,
    yes: bool,
) -> output.CommandResult:
    """Make a module of each state in and below DIRECTORY, with the configuration beside it.

    It finds terraform.tfstate, other *.tfstate files, and those of workspaces in terraform.tfstate.d. A module has the path of its
    folder below DIRECTORY.
    """
    from terracrew.cli.commands.importing import folders, running, spelling

    top = folders.common_folder(paths)
    found = folders.find(paths)
    plan = folders.plan(found, top, spelling.group(into, ""), folders.kind_of(kind), engine)
    return running.run(target.api(), plan, folders.read_state, only_plan=only_plan, yes=yes)
