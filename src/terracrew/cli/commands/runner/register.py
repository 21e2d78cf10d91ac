"""`terracrew runner register`, `reregister`, `create` and `once-token`: runners and the tokens with which their processes start."""

from shlex import quote

import click
import msgspec

from terracrew.api.runners import (
    MadeOnceToken,
    NewOnceToken,
    NewRunner,
    OnceTokenView,
    Registered,
    Registration,
    RunnerView,
)
from terracrew.cli.arguments import name_completion, options, references, settings
from terracrew.cli.arguments.references import api_path
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import is_loopback, segment

_AFTER_REPLACEMENT = (
    "{path} has a new token. The old one has ended: connections that were opened with it end within seconds, and running "
    "jobs continue. Stop its processes and start each of them again with this"
)


place_options = options.combine(
    options.group("The group that it belongs to; by default the organization.", default=""),
    click.option(
        "--assign/--no-assign",
        default=True,
        help="Whether all modules of its group may use it at once; otherwise it is assigned to nothing yet.",
    ),
)
"""Say where a new runner belongs."""


@click.command(
    "register",
    epilog=output.examples(
        "terracrew runner register edge --group platform",
        "terracrew runner register pool --multiple --tag gpu --max-jobs 2",
    ),
)
@click.argument("name")
@settings.request_options(
    Registration, "new", own=("name", "group", "assign", "replace"), defaults=Registration, without=("service_account",)
)
@place_options
@click.option(
    "--replace", is_flag=True, help="Give an existing runner a new token; the old one becomes invalid at once."
)
@output.with_target
def register(target: Target, new: Registration) -> output.CommandResult:
    """Register a runner called NAME and print the commands that start it. Its token is shown only once."""
    made = target.api().post("/runners/register", new, Registered)
    words = _AFTER_REPLACEMENT if new.replace else "registered {path}. Run this on the runner's machine"
    return _print_registered(made, words)


@click.command("reregister")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def reregister(target: Target, path: str, yes: bool) -> output.CommandResult:
    """Give the runner PATH a new token and print the commands that start it. The old token ends.

    Connections that were opened with the old token end within seconds. Running jobs continue.
    """
    api = target.api()
    if not yes:
        output.ask(_of_new_token(api.get(api_path(path), RunnerView)), "The token stays as it is.")
    return _print_registered(api.post(f"{api_path(path)}/reregister", {}, Registered), _AFTER_REPLACEMENT)


@click.command("create")
@click.argument("name")
@click.option(
    "--service-account",
    required=True,
    metavar="ACCOUNT",
    shell_complete=name_completion.service_accounts,
    help="The account (name, path or id) with which its processes authenticate.",
)
@settings.request_options(
    NewRunner, "new", own=("name", "group", "assign"), defaults=NewRunner, without=("service_account",)
)
@place_options
@output.with_target
def create(target: Target, service_account: str, new: NewRunner) -> output.CommandResult:
    """Create a runner called NAME that authenticates with a service account and has no token."""
    api = target.api()
    new = msgspec.structs.replace(new, service_account=references.service_account(api, service_account))
    made = api.post("/runners", new, RunnerView)
    return output.message(made, f"created runner {made.path}")


def _of_new_token(found: RunnerView) -> str:
    """Return the question that a person answers before a runner gets a new token."""
    connected = sum(each.is_connected for each in found.instances)
    text = f"Give {found.path} a new token? The old one ends."
    if connected:
        which = (
            "Its connected instance loses its connection"
            if connected == 1
            else f"Its {connected} connected instances lose their connections"
        )
        text += f" {which} within seconds, until it is started with the new token."
    return text + (" Running jobs continue." if found.jobs else "")


def _print_registered(made: Registered, words: str) -> output.CommandResult:
    before = f"{words.format(path=made.path)}; the token is shown only once:"
    if is_loopback(made.environment.get("TERRACREW_API_URL", "")):
        before += "\nthis address works only on the server's machine; for other machines, set TERRACREW_SERVER_PUBLIC_URL on the server"
    return output.message(made, _shell_lines(made), before=before)


def _shell_lines(made: Registered | MadeOnceToken) -> str:
    """Return what starts the processes of a runner, to be pasted into a shell."""
    return "\n".join([*(f"export {key}={quote(value)}" for key, value in made.environment.items()), made.command])


@click.group("once-token", cls=LazyGroup)
def once_token() -> None:
    """Manage tokens that are valid for one job, for machines that are thrown away after it."""


@once_token.command("create")
@click.argument("path", shell_complete=name_completion.runners)
@settings.request_options(NewOnceToken, "new", defaults=NewOnceToken)
@output.with_target
def create_once_token(target: Target, path: str, new: NewOnceToken) -> output.CommandResult:
    """Make a token for one job of the runner PATH and print the commands that use it. It is shown only once.

    The machine claims one job, delivers everything of it, and exits. The token can claim no second job.
    """
    made = target.api().post(f"{api_path(path)}/once-tokens", new, MadeOnceToken)
    before = (
        f"made {made.id} for one job of {made.runner_path}, which expires {output.age(made.expires_at)} unless it has "
        "claimed a job; it is shown only once:"
    )
    return output.message(made, _shell_lines(made), before=before)


@once_token.command("list")
@click.argument("path", shell_complete=name_completion.runners)
@output.with_target
def list_once_tokens(target: Target, path: str) -> output.CommandResult:
    """List the tokens for one job of the runner PATH, without their values. Old ones that have ended are removed."""
    items = list(target.api().list(f"{api_path(path)}/once-tokens", OnceTokenView))
    rows = [
        (i.id, i.status, i.job_number, i.created_by, output.age(i.created_at), output.age(i.expires_at)) for i in items
    ]
    empty = f"no tokens for one job: `terracrew runner once-token create {path}`"
    return output.listing(items, ("ID", "STATUS", "JOB", "CREATED BY", "CREATED", "EXPIRES"), rows, empty=empty)


@once_token.command("revoke")
@click.argument("path", shell_complete=name_completion.runners)
@click.argument("token", metavar="ID")
@output.with_target
def revoke_once_token(target: Target, path: str, token: str) -> output.CommandResult:
    """Revoke a token of the runner PATH. A job that it has claimed continues: `terracrew job cancel` stops that."""
    target.api().delete(f"{api_path(path)}/once-tokens/{segment(token)}")
    return output.message({"revoked": token}, f"revoked {token}")
