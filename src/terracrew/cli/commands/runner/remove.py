"""`terracrew runner remove`."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.arguments.durations import Duration
from terracrew.cli.commands.runner import consequences, remaining
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.connection.deadline import deadline
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command("remove")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--force", is_flag=True, help="Remove it at once. Its running jobs then count as lost.")
@click.option("--wait/--no-wait", default=True, help="Whether to wait until its last job has ended [--wait].")
@click.option("--timeout", type=Duration(), metavar="TIME", help="Wait for at most this long (90s, 30m, 24h).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def remove(target: Target, path: str, force: bool, wait: bool, timeout: int | None, yes: bool) -> output.Result:
    """Remove the runner PATH. It drains first and disappears after its last job; its processes then exit.

    `terracrew runner undrain` stops a removal. After a timeout the exit code is 13, and the removal continues.
    """
    api = target.api()
    if not yes:
        output.ask(consequences.of_removal(api, path, is_forced=force), "Not removed.")
    found: dict[str, Any] = api.delete(api_path(path) + ("?force=true" if force else ""))
    if not found["is_removed"] and wait:
        with deadline(timeout, f"the removal of {path}"):
            remaining.until_removed(api, found["remaining"]["id"])
        found = {"path": found["path"], "is_removed": True, "remaining": None}
    if found["is_removed"]:
        return output.message(found, f"removed {found['path']}")
    words = f"removing {found['path']}: {remaining.left(found['remaining'])}"
    return output.message(found, words, f"`terracrew runner undrain {path}` stops the removal")
