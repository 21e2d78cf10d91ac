"""`terracrew group`: the tree that modules and runners live in."""

import click

from terracrew.api import fields
from terracrew.api.groups import Group, GroupChange, GroupSettings, GroupView, NewGroup
from terracrew.cli.arguments import name_completion, settings
from terracrew.cli.commands import group_runs
from terracrew.cli.commands.job import render
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import details, output
from terracrew.client.address import segment
from terracrew.wording import approval_words

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
@output.with_target
def list_groups(target: Target, parent: str) -> output.CommandResult:
    """List the groups of the organization, or those below PARENT."""
    items = list(target.api().list("/groups", Group, parent=parent or None))
    rows = [(each.path, each.description, output.age(each.created_at)) for each in items if each.path]
    return output.listing(
        items, ("PATH", "DESCRIPTION", "CREATED"), rows, empty="no groups yet: `terracrew group create NAME`"
    )


@group.command("show")
@click.argument("path", shell_complete=name_completion.groups)
@output.with_target
def show_group(target: Target, path: str) -> output.CommandResult:
    """Show the group PATH, or the organization, which is `/`."""
    found = target.api().get(f"/groups/{segment(path)}", GroupView)
    return output.details(
        found,
        [
            ("path", found.path or "/ (the organization)"),
            ("id", found.id),
            *details.rows(found, GroupSettings, render.place_words(found)),
            *(("approval rule that applies", each) for each in approval_words.described(found.approval_rules)),
            ("created", output.age(found.created_at)),
        ],
    )


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
@output.with_target
def create(target: Target, path: str, parents: bool, change: GroupChange) -> output.CommandResult:
    """Create the group PATH (`a/b/c`)."""
    query = "?parents=true" if parents else ""
    made = target.api().post(f"/groups{query}", NewGroup(path=path, **fields.given(change)), Group)
    return output.message(made, f"created group {made.path}")


@group.command(
    "update",
    epilog=output.examples(
        "terracrew group update platform/prod --min-approvals 2 --self-approval no",
        "terracrew group update platform --max-destroy 5 --max-running-jobs 10",
    ),
)
@click.argument("path", shell_complete=name_completion.groups)
@settings.request_options(GroupChange, removals=_REMOVALS)
@output.with_target
def update(target: Target, path: str, change: GroupChange) -> output.CommandResult:
    """Change the group PATH, or the organization, which is `/`. Options that are not given change nothing."""
    changes = settings.read_changes(change)
    made = target.api().patch(f"/groups/{segment(path)}", change, Group)
    what = f"group {made.path}" if made.path else "the organization"
    return output.message(made, f"updated {what}: {', '.join(changes)}")


@group.command("delete")
@click.argument("path", shell_complete=name_completion.groups)
@output.with_target
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
