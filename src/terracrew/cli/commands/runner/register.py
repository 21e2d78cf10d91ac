"""`terracrew runner register`, `reregister` and `create`."""

from collections.abc import Callable
from shlex import quote
from typing import Any

import click

from terracrew.api import fields
from terracrew.api.runners import NewRunner, RunnerChange
from terracrew.cli.arguments import name_completion, references, settings
from terracrew.cli.arguments.references import api_path
from terracrew.cli.commands.runner import consequences
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.client.address import is_loopback

_AFTER_REPLACEMENT = (
    "{path} has a new token. The old one has ended: connections that were opened with it end within seconds, and running "
    "jobs continue. Stop its processes and start each of them again with this"
)


def _options_of_a_new_runner(command: Callable[..., Any]) -> Callable[..., Any]:
    for add in (
        click.option("--no-assign", is_flag=True, help="Assign it to nothing yet, instead of to its whole group."),
        click.option(
            "--group",
            default="",
            metavar="PATH",
            shell_complete=name_completion.groups,
            help="The group that it belongs to; by default the organization.",
        ),
    ):
        command = add(command)
    return settings.request_options(RunnerChange, defaults=NewRunner, without=("service_account",))(command)


@click.command(
    "register",
    epilog=output.examples(
        "terracrew runner register edge --group platform",
        "terracrew runner register pool --multiple --tag gpu --max-jobs 2",
    ),
)
@click.argument("name")
@_options_of_a_new_runner
@click.option(
    "--replace", is_flag=True, help="Give an existing runner a new token; the old one becomes invalid at once."
)
@output.json_option
@pass_target
def register(
    target: Target, name: str, group: str, no_assign: bool, replace: bool, change: RunnerChange
) -> output.CommandResult:
    """Register a runner called NAME and print the commands that start it. Its token is shown only once."""
    body = _body(name, group, no_assign, change) | ({"replace": True} if replace else {})
    made = target.api().post("/runners/register", body)
    words = _AFTER_REPLACEMENT if replace else "registered {path}. Run this on the runner's machine"
    return _print_registered(made, words)


@click.command("reregister")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def reregister(target: Target, path: str, yes: bool) -> output.CommandResult:
    """Give the runner PATH a new token and print the commands that start it. The old token ends.

    Connections that were opened with the old token end within seconds. Running jobs continue.
    """
    api = target.api()
    if not yes:
        output.ask(consequences.of_new_token(api.get(api_path(path))), "The token stays as it is.")
    return _print_registered(api.post(f"{api_path(path)}/reregister", {}), _AFTER_REPLACEMENT)


@click.command("create")
@click.argument("name")
@click.option(
    "--service-account",
    required=True,
    metavar="ACCOUNT",
    shell_complete=name_completion.service_accounts,
    help="The account (name, path or id) with which its processes authenticate.",
)
@_options_of_a_new_runner
@output.json_option
@pass_target
def create(
    target: Target, name: str, service_account: str, group: str, no_assign: bool, change: RunnerChange
) -> output.CommandResult:
    """Create a runner called NAME that authenticates with a service account and has no token."""
    api = target.api()
    account = {"service_account": references.service_account(api, service_account)}
    made = api.post("/runners", _body(name, group, no_assign, change) | account)
    return output.message(made, f"created runner {made['path']}")


def _body(name: str, group: str, no_assign: bool, change: RunnerChange) -> dict[str, Any]:
    place = {"group": group} if group else {}
    return fields.given(change) | {"name": name} | place | ({"assign": False} if no_assign else {})


def _print_registered(made: dict[str, Any], words: str) -> output.CommandResult:

    def show() -> None:
        output.note(f"{words.format(path=made['path'])}; the token is shown only once:")
        if is_loopback(made["environment"].get("TERRACREW_API_URL", "")):
            output.note(
                "this address works only on the server's machine; for other machines, set TERRACREW_SERVER_PUBLIC_URL on the server"
            )
        for key, value in made["environment"].items():
            click.echo(f"export {key}={quote(value)}")
        click.echo(made["command"])

    return output.CommandResult(made, show)
