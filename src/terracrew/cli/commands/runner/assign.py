"""`terracrew runner assign`: which groups and modules a runner serves."""

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Invalid


@click.command("assign")
@click.argument("path", shell_complete=name_completion.runners)
@click.option(
    "--group",
    metavar="PATH",
    shell_complete=name_completion.groups,
    help="Assign it to everything below this group; '' is the whole organization.",
)
@click.option("--module", metavar="PATH", shell_complete=name_completion.modules, help="Assign it to this module.")
@click.option("--remove", "removing", is_flag=True, help="Remove the assignment instead.")
@output.json_option
@pass_target
def assign(target: Target, path: str, group: str | None, module: str | None, removing: bool, as_json: bool) -> None:
    """Let a group or a module use the runner PATH."""
    if (group is None) == (module is None):
        raise Invalid("give either --group or --module")
    body = {"place": module, "kind": "module"} if module is not None else {"place": group, "kind": "group"}
    api = target.api()
    made = (
        api.delete(f"{api_path(path)}/assignments", body)
        if removing
        else api.post(f"{api_path(path)}/assignments", body)
    )
    if as_json:
        return output.as_json(made if made is not None else body)
    place = f"{body['kind']} {body['place'] or '(everything)'}"
    return click.echo(f"{path} no longer serves {place}" if removing else f"{path} serves {place}")
