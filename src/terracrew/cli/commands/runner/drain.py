"""`terracrew runner drain`, `undrain` and `remove`."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.arguments.references import api_path
from terracrew.cli.arguments.values import Duration
from terracrew.cli.commands.runner import consequences
from terracrew.cli.connection.deadline import deadline
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command("drain")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--wait", is_flag=True, help="Return when its last job has ended, and show what is left meanwhile.")
@click.option("--timeout", type=Duration(), metavar="TIME", help="Wait for at most this long (90s, 30m, 24h).")
@output.json_option
@pass_target
def drain(target: Target, path: str, wait: bool, timeout: int | None) -> output.CommandResult:
    """Drain the runner PATH: it finishes its jobs and gets no new ones.

    With --json --wait, the answer is what remains: nothing. After a timeout the exit code is 13, and the drain continues.
    """
    api = target.api()
    found = api.post(f"{api_path(path)}/drain", {"on": True})
    if not wait and timeout is None:
        words = f"Draining {path}: it finishes its jobs and takes no new ones"
        return output.message(found, words, *consequences.waiting_modules(api, path))
    with deadline(timeout, f"the drain of {path}"):
        left = consequences.until_drained(api, found["id"])
    return output.message(left, f"{left['path']} is drained: it has no jobs")


@click.command("undrain")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def undrain(target: Target, path: str) -> output.CommandResult:
    """End the drain of the runner PATH: it gets jobs again. This also stops its removal."""
    found = target.api().post(f"{api_path(path)}/drain", {"on": False})
    return output.message(found, f"{path} takes jobs again")


@click.command("remove")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--force", is_flag=True, help="Remove it at once. Its running jobs then count as lost.")
@click.option("--wait/--no-wait", default=True, help="Whether to wait until its last job has ended [--wait].")
@click.option("--timeout", type=Duration(), metavar="TIME", help="Wait for at most this long (90s, 30m, 24h).")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def remove(target: Target, path: str, force: bool, wait: bool, timeout: int | None, yes: bool) -> output.CommandResult:
    """Remove the runner PATH. It drains first and disappears after its last job; its processes then exit.

    `terracrew runner undrain` stops a removal. After a timeout the exit code is 13, and the removal continues.
    """
    api = target.api()
    if not yes:
        output.ask(consequences.of_removal(api, path, is_forced=force), "Not removed.")
    found: dict[str, Any] = api.delete(api_path(path) + ("?force=true" if force else ""))
    if not found["is_removed"] and wait:
        with deadline(timeout, f"the removal of {path}"):
            consequences.until_removed(api, found["remaining"]["id"])
        found = {"path": found["path"], "is_removed": True, "remaining": None}
    if found["is_removed"]:
        return output.message(found, f"removed {found['path']}")
    words = f"removing {found['path']}: {consequences.left(found['remaining'])}"
    return output.message(found, words, f"`terracrew runner undrain {path}` stops the removal")
