"""`terracrew runner assign` and `unassign`: which groups and modules a runner serves."""

from collections.abc import Callable
from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.arguments.references import api_path
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Invalid


def _place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for add in (
        click.option("--all", "is_all", is_flag=True, help="All modules of the runner's own group."),
        click.option("--module", metavar="PATH", shell_complete=name_completion.modules, help="This module."),
        click.option(
            "--group",
            metavar="PATH",
            shell_complete=name_completion.groups,
            help="Everything below this group; '' is the whole organization.",
        ),
    ):
        command = add(command)
    return command


@click.command(
    "assign",
    epilog=output.examples(
        "terracrew runner assign platform/edge --group platform/prod",
        "terracrew runner assign platform/edge --module shop/web",
    ),
)
@click.argument("path", shell_complete=name_completion.runners)
@_place_options
@output.json_option
@pass_target
def assign(target: Target, path: str, group: str | None, module: str | None, is_all: bool) -> output.CommandResult:
    """Let a group, a module or all modules of its own group use the runner PATH."""
    api, body = target.api(), _place(group, module, is_all)
    made = (
        api.patch(api_path(path), {"is_assigned_to_all_modules": True})
        if body is None
        else api.post(f"{api_path(path)}/assignments", body)
    )
    return output.message(made, f"{path} serves {_words(body)}")


@click.command("unassign")
@click.argument("path", shell_complete=name_completion.runners)
@_place_options
@output.json_option
@pass_target
def unassign(target: Target, path: str, group: str | None, module: str | None, is_all: bool) -> output.CommandResult:
    """Take the runner PATH away from a group, a module, or its own group as a whole. Jobs that it has continue."""
    api, body = target.api(), _place(group, module, is_all)
    if body is None:
        made = api.patch(api_path(path), {"is_assigned_to_all_modules": False})
    else:
        api.delete(f"{api_path(path)}/assignments", body)
        made = body
    return output.message(made, f"{path} no longer serves {_words(body)}")


def _place(group: str | None, module: str | None, is_all: bool) -> dict[str, Any] | None:
    """Return the place as the API expects it; None for the runner's own group as a whole."""
    if (group is not None) + (module is not None) + is_all != 1:
        raise Invalid("give one of --group, --module and --all")
    if is_all:
        return None
    return {"place": module, "kind": "module"} if module is not None else {"place": group, "kind": "group"}


def _words(place: dict[str, Any] | None) -> str:
    return "all modules of its group" if place is None else f"{place['kind']} {place['place'] or '(everything)'}"
