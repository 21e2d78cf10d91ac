"""`terracrew runner update`, `disable` and `enable`."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion, numbers
from terracrew.cli.commands.runner import consequences
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.commands.runner.register import MAX_JOBS_HELP
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Invalid


@click.command("update")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--description", help="A description.")
@click.option("--max-jobs", type=numbers.Whole(min=1), help=MAX_JOBS_HELP)
@click.option("--tag", "tags", multiple=True, help="A tag. Can be repeated; replaces all tags. '' removes all.")
@click.option(
    "--multiple/--single", "allow_multiple_instances", default=None, help="Whether several instances are allowed."
)
@click.option(
    "--all-modules/--not-all-modules",
    "is_assigned_to_all_modules",
    default=None,
    help="Whether all modules of its group may use it.",
)
@click.option("--disable/--enable", "is_disabled", default=None, help="A disabled runner gets no new jobs.")
@output.json_option
@pass_target
def update(target: Target, path: str, tags: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Change the runner PATH. Options that are not given change nothing. Its name and group never change."""
    changes = {name: value for name, value in given.items() if value is not None}
    if tags:
        changes["tags"] = [each for each in tags if each]
    if not changes:
        raise Invalid("no option was given that changes the runner: see `terracrew runner update --help`")
    made = target.api().patch(api_path(path), changes)
    return output.as_json(made) if as_json else click.echo(f"updated runner {made['path']}: {', '.join(changes)}")


@click.command("disable")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def disable(target: Target, path: str, as_json: bool) -> None:
    """Disable the runner PATH: it stays connected and reports, and gets no new jobs."""
    api = target.api()
    made = api.patch(api_path(path), {"is_disabled": True})
    if as_json:
        return output.as_json(made)
    jobs = f"; it finishes its {made['jobs']} job{'' if made['jobs'] == 1 else 's'}" if made["jobs"] else ""
    click.echo(f"disabled {made['path']}: it gets no new jobs{jobs}")
    return consequences.note_waiting_modules(api, made["id"])


@click.command("enable")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def enable(target: Target, path: str, as_json: bool) -> None:
    """Enable the runner PATH again."""
    made = target.api().patch(api_path(path), {"is_disabled": False})
    if as_json:
        return output.as_json(made)
    but = ", but it drains: `terracrew runner undrain` ends that" if made["is_draining"] else ""
    return click.echo(f"enabled {made['path']}{but}")
