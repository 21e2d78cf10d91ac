"""`terracrew runner once-token`: tokens with which a machine runs one job of a runner."""

from shlex import quote
from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.arguments.references import api_path
from terracrew.cli.arguments.values import Duration
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment


@click.group("once-token", cls=LazyGroup)
def once_token() -> None:
    """Manage tokens that are valid for one job, for machines that are thrown away after it."""


@once_token.command("create")
@click.argument("path", shell_complete=name_completion.runners)
@click.option(
    "--valid-for",
    type=Duration(),
    metavar="DURATION",
    help="How long it may wait for its job, from 60s to 24h; by default 1h.",
)
@output.json_option
@pass_target
def create(target: Target, path: str, valid_for: int | None) -> output.CommandResult:
    """Make a token for one job of the runner PATH and print the commands that use it. It is shown only once.

    The machine claims one job, delivers everything of it, and exits. The token can claim no second job.
    """
    made: dict[str, Any] = target.api().post(
        f"{api_path(path)}/once-tokens", {} if valid_for is None else {"seconds": valid_for}
    )

    def show() -> None:
        output.note(
            f"made {made['id']} for one job of {made['runner_path']}, which expires {output.age(made['expires_at'])} unless it has "
            "claimed a job; it is shown only once:"
        )
        for key, value in made["environment"].items():
            click.echo(f"export {key}={quote(value)}")
        click.echo(made["command"])

    return output.CommandResult(made, show)


@once_token.command("list")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def list_once_tokens(target: Target, path: str) -> output.CommandResult:
    """List the tokens for one job of the runner PATH, without their values. Old ones that have ended are removed."""
    items = list(target.api().list(f"{api_path(path)}/once-tokens"))
    rows = [
        (
            i["id"],
            i["status"],
            i.get("job_number"),
            i["created_by"],
            output.age(i["created_at"]),
            output.age(i["expires_at"]),
        )
        for i in items
    ]
    empty = f"no tokens for one job: `terracrew runner once-token create {path}`"
    return output.listing(items, ("ID", "STATUS", "JOB", "CREATED BY", "CREATED", "EXPIRES"), rows, empty=empty)


@once_token.command("revoke")
@click.argument("path", shell_complete=name_completion.runners)
@click.argument("token", metavar="ID")
@output.json_option
@pass_target
def revoke(target: Target, path: str, token: str) -> output.CommandResult:
    """Revoke a token of the runner PATH. A job that it has claimed continues: `terracrew job cancel` stops that."""
    target.api().delete(f"{api_path(path)}/once-tokens/{segment(token)}")
    return output.message({"revoked": token}, f"revoked {token}")
