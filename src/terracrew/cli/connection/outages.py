"""Lets a command that waits for something on the server wait through a restart of the server, too."""

from typing import TYPE_CHECKING

from terracrew.cli.printing import output
from terracrew.errors import TerracrewError

if TYPE_CHECKING:
    from terracrew.client.http import Api

MAX_OUTAGE_SECONDS = 300.0


def wait_out(api: "Api") -> None:
    """Let requests that can be repeated wait while the server cannot be reached, and print what they wait for.

    Call this after the request that starts what is waited for, so that a command that never reaches a server ends at once.
    """
    printed: set[str] = set()

    def note(error: TerracrewError) -> None:
        if error.message not in printed:
            printed.add(error.message)
            output.note(f"waiting: {error.message}")

    api.max_outage_seconds, api.on_wait = MAX_OUTAGE_SECONDS, note
