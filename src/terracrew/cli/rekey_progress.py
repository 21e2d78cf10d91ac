"""Watches the encryption under a new master key, and says what came of it."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from terracrew.errors import TerracrewError

if TYPE_CHECKING:
    from terracrew.client.http import Api

_LOOK_SECONDS = 0.5
_SAY_SECONDS = 2.0


def wait(api: "Api", say: Callable[[str], None]) -> Any:
    """Return its end; on the way say how far it has come."""
    said = ""
    say_at = time.monotonic() + _SAY_SECONDS
    while (progress := api.get("/rekey"))["status"] == "running":
        if time.monotonic() >= say_at and (line := _line(progress)) != said:
            say(line)
            said, say_at = line, time.monotonic() + _SAY_SECONDS
        time.sleep(_LOOK_SECONDS)
    return progress


def tell(progress: Any) -> None:
    """Say what the operator is to do next."""
    key, encrypted = progress["key_id"], f"{progress['encrypted']:,}"
    match progress["status"]:
        case "finished":
            click.echo(f"finished: {encrypted} ciphertexts were encrypted anew; nothing needs a key other than {key}")
            click.echo("if the master key file has older keys, they may be removed; then restart the server")
        case "running":
            click.echo(f"running under key {key}: `terracrew server rekey` shows how far it has come")
        case "stopped":
            click.echo(f"stopped after {encrypted}: keep all keys, and call `terracrew server rekey` to go on")
        case "none":
            click.echo("nothing was encrypted anew yet")
        case _:
            raise TerracrewError(
                f"{progress['failed']:,} ciphertexts could not be encrypted anew; the first: {progress['problem']}",
                hint="keep all keys; give the server the key that is named, restart it, and call this again",
            )


def _line(progress: Any) -> str:
    return f"{progress['doing']}: {progress['done']:,} looked at; {progress['encrypted']:,} encrypted anew so far"
