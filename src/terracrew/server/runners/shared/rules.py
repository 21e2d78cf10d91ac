"""Refuses changes of shared runners that only the server's settings file makes, with words that name the file."""

from collections.abc import Mapping
from typing import Any

from terracrew.api.runners import Runner
from terracrew.errors import Conflict
from terracrew.server.db.seam import Tx
from terracrew.server.runners.shared import declaration

DECLARED_FIELDS = frozenset({"description", "max_jobs", "allow_multiple_instances", "tags"})
"""The fields that the settings file sets at each start of a server."""


def require_not_declared(runner: Runner, what: str) -> None:
    """Refuse what would change the declaration of a shared runner. `what` completes the message "… cannot …"."""
    if runner.is_declared:
        raise Conflict(
            f"`{runner.path}` cannot {what}: it is shared, and {_place(runner)} declares it. Change it there and restart the "
            "server. System administrators can drain, undrain, disable and enable it here"
        )


def require_changeable(runner: Runner, wanted: Mapping[str, Any]) -> None:
    """Refuse other values of a shared runner's fields than those that the settings file sets."""
    if declared := sorted(
        field for field in DECLARED_FIELDS & wanted.keys() if wanted[field] != getattr(runner, field)
    ):
        require_not_declared(runner, f"be changed here ({', '.join(declared)})")


def require_not_retired(runner: Runner) -> None:
    """Refuse to stop the removal of a runner that no settings file declares any more."""
    if runner.is_shared and not runner.is_declared and runner.removing_since is not None:
        raise Conflict(
            f"`{runner.path}` is retired, because the server's settings no longer declare it. To keep it, declare it again as "
            f"shared_runners.{runner.name} in {runner.declared_in or 'the settings file'}, and restart the server"
        )


async def declaration_refusal(tx: Tx) -> Conflict:
    """Return the error for a request to make a shared runner, which has no group."""
    found = await declaration.current(tx)
    file = found.file if found else "the server's settings file"
    return Conflict(
        f"group: null would be a shared runner, and only shared_runners in {file} declares those. Name a group, or leave it "
        "out for the whole organization"
    )


def _place(runner: Runner) -> str:
    return f"the server's settings file {runner.declared_in}" if runner.declared_in else "the server's configuration"
