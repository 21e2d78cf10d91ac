"""`terracrew service-account assign` and `unassign`: which account the processes of a runner authenticate with."""

import click

from terracrew.cli.arguments import name_completion, references
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Conflict


@click.command("assign")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.argument("runner", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def assign(target: Target, account: str, runner: str) -> output.Result:
    """Let the processes of RUNNER authenticate with ACCOUNT, which must belong to its group or to a group above it."""
    api = target.api()
    made = api.patch(api_path(runner), {"service_account": references.service_account(api, account)})
    return output.message(made, f"{made['path']} authenticates with {account}")


@click.command("unassign")
@click.argument("account", shell_complete=name_completion.service_accounts)
@click.argument("runner", shell_complete=name_completion.runners)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def unassign(target: Target, account: str, runner: str, yes: bool) -> output.Result:
    """Take ACCOUNT away from RUNNER. Connections that were opened with it end within seconds."""
    api = target.api()
    found = api.get(api_path(runner))
    if found["service_account_id"] != references.service_account(api, account):
        raise Conflict(f"{found['path']} does not authenticate with {account}")
    if not yes:
        token = (
            "" if found["has_worker_token"] else " It has no token of its own, so none of its processes can connect."
        )
        output.ask(
            f"Take {account} away from {found['path']}? Connections that were opened with it end within seconds.{token}",
            "Nothing changed.",
        )
    made = api.patch(api_path(runner), {"service_account": None})
    return output.message(made, f"{made['path']} no longer authenticates with {account}")
