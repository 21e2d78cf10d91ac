"""Runs a credential helper as the runner does: as a process, whose standard output is the token."""

import sys

from terracrew.runner.config import HelperCommand

TIMEOUT_SECONDS = 120.0


def command(name: str, *arguments: str) -> HelperCommand:
    """Return the command of a helper of this source, also where its program is not installed."""
    start = f"import sys; from terracrew.credential_helpers.{name} import main; sys.exit(main())"
    return HelperCommand(sys.executable, ["-c", start, *arguments], TIMEOUT_SECONDS)
