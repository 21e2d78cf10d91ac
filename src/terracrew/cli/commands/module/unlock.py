"""`terracrew module unlock`: frees the lock that a lost attempt holds."""

from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.job.gone import give_up
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Conflict

if TYPE_CHECKING:
    from terracrew.client.http import Api


@click.command("unlock")
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def unlock(target: Target, path: str, yes: bool) -> output.Result:
    """Free the lock of the module PATH if the attempt that holds it is lost. This is the same as `terracrew job gone`."""
    api = target.api()
    holder = _holder(api, path)
    if holder is None or not holder["lock"]:
        return output.message({"lock": None}, f"the lock of {path} is free")
    if not holder["lock"].get("lost_at"):
        raise Conflict(
            f"job {holder['number']} holds the lock of {path} and is in contact, so the lock stays",
            hint=f"`terracrew job cancel {holder['number']}` asks it to end",
        )
    return give_up(api, holder, holder["lock"]["attempt"], yes)


def _holder(api: "Api", path: str) -> dict[str, Any] | None:
    """Return the job that holds the module's lock."""
    for status in ("PROCESSING", "CLAIMED"):
        for found in api.get("/jobs", module=path, status=status, limit=1)["items"]:
            return api.get(f"/jobs/{found['id']}")
    return None
