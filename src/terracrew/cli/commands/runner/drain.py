"""`terracrew runner drain` and `undrain`."""

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.arguments.durations import Duration
from terracrew.cli.commands.runner import consequences, remaining
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.connection.deadline import deadline
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command("drain")
@click.argument("path", shell_complete=name_completion.runners)
@click.option("--wait", is_flag=True, help="Return when its last job has ended, and show what is left meanwhile.")
@click.option("--timeout", type=Duration(), metavar="TIME", help="Wait for at most this long (90s, 30m, 24h).")
@output.json_option
@pass_target
def drain(target: Target, path: str, wait: bool, timeout: int | None) -> output.Result:
    """Drain the runner PATH: it finishes its jobs and gets no new ones.

    With --json --wait, the answer is what remains: nothing. After a timeout the exit code is 13, and the drain continues.
    """
    api = target.api()
    found = api.post(f"{api_path(path)}/drain", {"on": True})
    if not wait and timeout is None:
        words = f"Draining {path}: it finishes its jobs and takes no new ones"
        return output.message(found, words, *consequences.waiting_modules(api, path))
    with deadline(timeout, f"the drain of {path}"):
        left = remaining.until_drained(api, found["id"])
    return output.message(left, f"{left['path']} is drained: it has no jobs")


@click.command("undrain")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def undrain(target: Target, path: str) -> output.Result:
    """End the drain of the runner PATH: it gets jobs again. This also stops its removal."""
    found = target.api().post(f"{api_path(path)}/drain", {"on": False})
    return output.message(found, f"{path} takes jobs again")
