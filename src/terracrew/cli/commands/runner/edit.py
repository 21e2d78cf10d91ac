"""`terracrew runner register`, `create`, `update` and `remove`."""

from collections.abc import Callable
from shlex import quote
from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.client.address import is_loopback
from terracrew.errors import Invalid


def _options_of_a_new_runner(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that describe a new runner, however it authenticates."""
    for add in (
        click.option("--multiple", "allow_multiple_instances", is_flag=True, help="Allow several instances."),
        click.option("--tag", "tags", multiple=True, help="A tag. Can be repeated."),
        click.option("--max-jobs", type=click.IntRange(min=1), help="How many jobs each instance may run at once."),
        click.option(
            "--group",
            default="",
            metavar="PATH",
            shell_complete=name_completion.groups,
            help="The group that it belongs to; by default the organization.",
        ),
    ):
        command = add(command)
    return command


@click.command("register")
@click.argument("name")
@_options_of_a_new_runner
@click.option(
    "--replace", is_flag=True, help="Give an existing runner a new token; the old one becomes invalid at once."
)
@output.json_option
@pass_target
def register(target: Target, name: str, as_json: bool, **given: Any) -> None:
    """Register a runner called NAME and print the commands that start it. Its token is shown only once."""
    made = target.api().post(
        "/runners/register", {"name": name} | {key: value for key, value in given.items() if value}
    )
    if as_json:
        return output.as_json(made)
    output.note(f"registered {made['path']}. Run this on the runner's machine; the token is shown only once:")
    if is_loopback(made["environment"].get("TERRACREW_API_URL", "")):
        output.note(
            "this address works only on the server's machine; for other machines, set TERRACREW_SERVER_PUBLIC_URL on the server"
        )
    for key, value in made["environment"].items():
        click.echo(f"export {key}={quote(value)}")
    return click.echo(made["command"])


@click.command("create")
@click.argument("name")
@click.option(
    "--service-account", required=True, metavar="ID", help="The account with which its processes authenticate."
)
@_options_of_a_new_runner
@output.json_option
@pass_target
def create(target: Target, name: str, as_json: bool, **given: Any) -> None:
    """Create a runner called NAME that authenticates with a service account and has no token."""
    made = target.api().post("/runners", {"name": name} | {key: value for key, value in given.items() if value})
    return output.as_json(made) if as_json else click.echo(f"created runner {made['path']}")


@click.command("update")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--description", help="A description.")
@click.option("--max-jobs", type=click.IntRange(min=1), help="How many jobs each instance may run at once.")
@click.option("--tag", "tags", multiple=True, help="A tag. Can be repeated; replaces all tags. '' removes all.")
@click.option(
    "--multiple/--single", "allow_multiple_instances", default=None, help="Whether several instances are allowed."
)
@click.option("--disable/--enable", "is_disabled", default=None, help="A disabled runner gets no new jobs.")
@output.json_option
@pass_target
def update(target: Target, path: str, tags: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Change the runner PATH. Options that are not given change nothing."""
    changes = {name: value for name, value in given.items() if value is not None}
    if tags:
        changes["tags"] = [each for each in tags if each]
    if not changes:
        raise Invalid("no option was given that changes the runner: see `terracrew runner update --help`")
    made = target.api().patch(api_path(path), changes)
    return output.as_json(made) if as_json else click.echo(f"updated runner {made['path']}: {', '.join(changes)}")


@click.command("remove")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--force", is_flag=True, help="Remove it even if it is not drained. Its running jobs then count as lost.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def remove(target: Target, path: str, force: bool, yes: bool, as_json: bool) -> None:
    """Remove the runner PATH, which should be drained first. Its processes exit and log the reason."""
    if not yes:
        output.ask(f"Remove the runner {path}?", "Not removed.")
    target.api().delete(api_path(path) + ("?force=true" if force else ""))
    return output.as_json({"removed": path}) if as_json else click.echo(f"removed {path}")
