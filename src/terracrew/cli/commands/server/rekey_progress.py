"""Watches a re-encryption under a new master key, and reports its result."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from terracrew.errors import TerracrewError

if TYPE_CHECKING:
    from terracrew.client.http import Api

_POLL_SECONDS = 0.5
_REPORT_SECONDS = 2.0


def wait(api: "Api", say: Callable[[str], None]) -> Any:
    """Return the final progress; report the progress until then."""
    said = ""
    say_at = time.monotonic() + _REPORT_SECONDS
    while (progress := api.get("/rekey"))["status"] == "running":
        if time.monotonic() >= say_at and (line := _line(progress)) != said:
            say(line)
            said, say_at = line, time.monotonic() + _REPORT_SECONDS
        time.sleep(_POLL_SECONDS)
    return progress


def tell(progress: Any) -> None:
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
