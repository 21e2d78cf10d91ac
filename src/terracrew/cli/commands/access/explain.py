"""`terracrew role explain`: why somebody may do something, or what is missing."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output

VERBS = (
    "tree.read",
    "tree.write",
    "job.read",
    "job.run",
    "job.cancel",
    "job.approve",
    "state.read",
    "state.write",
    "secret.use",
    "secret.set",
    "runner.read",
    "runner.write",
    "access.read",
    "access.write",
    "audit.read",
    "server.admin",
)
"""What people and service accounts may be asked about."""


@click.command("explain")
@click.argument("who", shell_complete=name_completion.users)
@click.argument("verb", metavar="VERB", type=click.Choice(VERBS))
@click.argument("path", default="", shell_complete=name_completion.places)
@output.json_option
@pass_target
def explain(target: Target, who: str, verb: str, path: str) -> output.Result:
    """Explain whether WHO may VERB at PATH, a group or module, or at the organization without PATH.

    WHO is `me`, a user, or a service account by id or `group/name`. VERB is `tree`, `job`, `state`, `runner` or `access` with
    `.read` or, except for `job`, `.write`; or `job.run`, `job.cancel`, `job.approve`, `audit.read`, `server.admin`.
    """
    found = target.api().get("/access/explain", principal=who, verb=verb, path=path)

    def show() -> None:
        click.echo(f"{'Yes' if found['is_allowed'] else 'No'}: {found['sentence']}")
        for depth, step in enumerate(found["steps"]):
            click.echo(f"{'  ' * (depth + 1)}{_step(step)}")
        for limit in found["limits"]:
            click.echo(f"Limit: {limit}")
        if found["sufficient_roles"]:
            click.echo(f"Roles that would allow it: {', '.join(found['sufficient_roles'])}")
            granters = [*found["can_be_granted_by"], "administrators of the server"]
            click.echo(f"They can be granted by: {', '.join(granters)}")

    return output.Result(found, show)


def _step(step: dict[str, Any]) -> str:
    name = step["path"].rpartition("/")[2] or "the organization"
    role = step["role"]
    if role is None:
        return name
    by = role["created_by_name"] or "Terracrew"
    ends = f", expires {output.age(role['expires_at'])}" if role["expires_at"] else ""
    mark = "  <- decides" if step["is_deciding"] else ""
    return f"{name}: {role['role']}, granted by {by} {output.age(role['created_at'])}{ends}{mark}"
