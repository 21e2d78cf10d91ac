"""`terracrew group`: the tree that modules and runners live in."""

import click

from terracrew.api import fields
from terracrew.api.groups import GroupChange, NewGroup
from terracrew.cli.arguments import name_completion, settings
from terracrew.cli.commands import group_runs
from terracrew.cli.commands.job import render
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Invalid
from terracrew.wording import approval_words, module_words

_DESCRIBED = ("limits", "cloud", "dispatcher", "approval_rules")
"""The fields of a group that are shown in words."""
_CHANGED_LATER = (
    "interrupted",
    "max_destroy",
    "max_destroy_percent",
    "self_approval",
    "service_account_approval",
)
"""The fields for which `group create` has no option."""
_REMOVALS = {"max_running_jobs": ("--no-max-running-jobs", "Do not limit how many jobs run at once.")}


@click.group(cls=LazyGroup)
def group() -> None:
    """Manage groups, which form the tree that contains modules and runners."""


@group.command("list")
@click.argument("parent", default="", shell_complete=name_completion.groups)
@output.json_option
@pass_target
def list_groups(target: Target, parent: str) -> output.CommandResult:
    """List the groups of the organization, or those below PARENT."""
    items = list(target.api().list("/groups", parent=parent or None))
    rows = [(item["path"], item["description"], output.age(item["created_at"])) for item in items if item["path"]]
    return output.listing(
        items, ("PATH", "DESCRIPTION", "CREATED"), rows, empty="no groups yet: `terracrew group create NAME`"
    )


@group.command("show")
@click.argument("path", shell_complete=name_completion.groups)
@output.json_option
@pass_target
def show_group(target: Target, path: str) -> output.CommandResult:
    """Show the group PATH, or the organization, which is `/`."""
    found = target.api().get(f"/groups/{segment(path)}")

    def show() -> None:
        known = ("path", "id", "description")
        rest = [
            (name.replace("_", " "), value)
            for name, value in found.items()
            if name not in (*known, "name", "created_at", "organization_id", "parent_id", "depth", *_DESCRIBED)
        ]
        rest += [
            ("approval rule that applies", each) for each in approval_words.described(found.get("approval_rules") or [])
        ]
        rest.append(("limits", ", ".join(module_words.described_limits(found.get("limits") or {}))))
        rest.append(("dispatcher", ", ".join(module_words.described_choice(found.get("dispatcher") or {}))))
        rest.append(("cloud logins", render.cloud_logins(found.get("cloud") or {})))
        found["path"] = found["path"] or "/ (the organization)"
        output.facts([*((name, found[name]) for name in known), *rest, ("created", output.age(found["created_at"]))])

    return output.CommandResult(found, show)


@group.command(
    "create",
    epilog=output.examples(
        "terracrew group create platform",
        "terracrew group create platform/prod/eu --parents --min-approvals 2",
    ),
)
@click.argument("path", shell_complete=name_completion.groups)
@settings.request_options(GroupChange, defaults=NewGroup, without=_CHANGED_LATER)
@click.option("--parents", "-p", is_flag=True, help="Also create missing parent groups.")
@output.json_option
@pass_target
def create(target: Target, path: str, parents: bool, change: GroupChange) -> output.CommandResult:
    """Create the group PATH (`a/b/c`)."""
    query = "?parents=true" if parents else ""
    made = target.api().post(f"/groups{query}", fields.given(change) | {"path": path})
    return output.message(made, f"created group {made['path']}")


@group.command(
    "update",
    epilog=output.examples(
        "terracrew group update platform/prod --min-approvals 2 --self-approval no",
        "terracrew group update platform --max-destroy 5 --max-running-jobs 10",
    ),
)
@click.argument("path", shell_complete=name_completion.groups)
@settings.request_options(GroupChange, removals=_REMOVALS)
@output.json_option
@pass_target
def update(target: Target, path: str, change: GroupChange) -> output.CommandResult:
    """Change the group PATH, or the organization, which is `/`. Options that are not given change nothing."""
    changes = fields.given(change)
    if not changes:
        raise Invalid("no option was given that changes the group: see `terracrew group update --help`")
    made = target.api().patch(f"/groups/{segment(path)}", change)
    what = f"group {made['path']}" if made["path"] else "the organization"
    return output.message(made, f"updated {what}: {', '.join(changes)}")


@group.command("delete")
@click.argument("path", shell_complete=name_completion.groups)
@output.json_option
@pass_target
def delete(target: Target, path: str) -> output.CommandResult:
    """Delete the group PATH, which must be empty."""
    target.api().delete(f"/groups/{segment(path)}")
    return output.message({"deleted": path}, f"deleted group {path}")


for _command in (
    group_runs.plan,
    group_runs.apply,
    group_runs.destroy,
    group_runs.list_runs,
    group_runs.progress,
    group_runs.stop,
):
    group.add_command(_command)
