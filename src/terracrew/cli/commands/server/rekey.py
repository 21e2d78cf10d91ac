"""`terracrew server rekey`: re-encrypts everything under a new master key."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.connection import deadline
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import TerracrewError

if TYPE_CHECKING:
    from terracrew.client.http import Api


_POLL_SECONDS = 0.5
_REPORT_SECONDS = 2.0


@click.command("rekey")
@click.option("--no-wait", is_flag=True, help="Start the re-encryption and do not wait for its end.")
@click.option("--stop", is_flag=True, help="Stop the re-encryption; values that were re-encrypted already stay so.")
@output.json_option
@pass_target
def rekey(target: Target, no_wait: bool, stop: bool) -> output.CommandResult:
    """Re-encrypt everything in the database and the object store under the newest master key, while the server runs.

    First put both keys into the master key file, with the new one in the first line, and restart the server. Afterwards
    the old key can be removed. Interrupting this command does not stop the work; run it again to watch it.
    """
    api = target.api()
    if stop:
        progress = api.delete("/rekey")
    else:
        progress = api.post("/rekey", {})
        if not no_wait:
            progress = _wait(api, output.note)
    return output.CommandResult(progress, lambda: _print_result(progress))


def _wait(api: "Api", report: Callable[[str], None]) -> Any:
    """Wait until the re-encryption ends, report its progress meanwhile, and return its final progress."""
    deadline.wait_out(api)
    reported = ""
    report_at = time.monotonic() + _REPORT_SECONDS
    while (progress := api.get("/rekey"))["status"] == "running":
        if time.monotonic() >= report_at and (line := _line(progress)) != reported:
            report(line)
            reported, report_at = line, time.monotonic() + _REPORT_SECONDS
        time.sleep(_POLL_SECONDS)
    return progress


def _print_result(progress: Any) -> None:
    """Print the result and what the operator should do next."""
    key, encrypted = progress["key_id"], f"{progress['encrypted']:,}"
    match progress["status"]:
        case "finished":
            click.echo(f"finished: {encrypted} ciphertexts were re-encrypted; only the key {key} is needed now")
            click.echo("older keys can be removed from the master key file; then restart the server")
        case "running":
            click.echo(f"running under key {key}: `terracrew server rekey` shows the progress")
        case "stopped":
            click.echo(f"stopped after {encrypted}: keep all keys, and run `terracrew server rekey` to continue")
        case "none":
            click.echo("nothing has been re-encrypted yet")
        case _:
            raise TerracrewError(
                f"{progress['failed']:,} ciphertexts could not be re-encrypted; the first: {progress['problem']}",
                hint="keep all keys, add the key that the message names to the master key file, restart the server, and run this again",
            )


def _line(progress: Any) -> str:
    return f"{progress['doing']}: {progress['done']:,} checked, {progress['encrypted']:,} re-encrypted so far"
