"""`terracrew group`: the tree that modules and runners live in."""

from typing import Any

import click

from terracrew.cli.arguments import (
    approval_options,
    cloud_options,
    dispatcher_options,
    limit_options,
    name_completion,
    placement_options,
)
from terracrew.cli.commands import group_runs
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.errors import Invalid
from terracrew.wording import approval_words, dispatcher_words, limit_words

_DESCRIBED = ("limits", "cloud", "dispatcher", "approval_rules")
"""The fields of a group that are shown in words."""


@click.group(cls=LazyGroup)
def group() -> None:
    """Manage groups, which form the tree that contains modules and runners."""


@group.command("list")
@click.argument("parent", default="", shell_complete=name_completion.groups)
@output.json_option
@pass_target
def list_groups(target: Target, parent: str) -> output.Result:
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
def show_group(target: Target, path: str) -> output.Result:
    """Show the group PATH, or the organization, which is `/`."""
    from terracrew.client.http import segment

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
        rest.append(("limits", ", ".join(limit_words.described(found.get("limits") or {}))))
        rest.append(("dispatcher", ", ".join(dispatcher_words.described(found.get("dispatcher") or {}))))
        rest.append(("cloud logins", cloud_options.described(found.get("cloud") or {})))
        found["path"] = found["path"] or "/ (the organization)"
        output.facts([*((name, found[name]) for name in known), *rest, ("created", output.age(found["created_at"]))])

    return output.Result(found, show)


@group.command(
    "create",
    epilog=output.examples(
        "terracrew group create platform",
        "terracrew group create platform/prod/eu --parents --min-approvals 2",
    ),
)
@click.argument("path", shell_complete=name_completion.groups)
@click.option("--description", default="", help="A description.")
@approval_options.min_approvals
@placement_options.for_new_group
@limit_options.limits
@cloud_options.cloud
@dispatcher_options.dispatcher
@click.option("--parents", "-p", is_flag=True, help="Also create missing parent groups.")
@output.json_option
@pass_target
def create(target: Target, path: str, description: str, parents: bool) -> output.Result:
    """Create the group PATH (`a/b/c`)."""
    query = "?parents=true" if parents else ""
    body = {"path": path, "description": description} | approval_options.given() | placement_options.given()
    body |= limit_options.given() | cloud_options.given() | dispatcher_options.given()
    made = target.api().post(f"/groups{query}", body)
    return output.message(made, f"created group {made['path']}")


@group.command(
    "update",
    epilog=output.examples(
        "terracrew group update platform/prod --min-approvals 2 --self-approval no",
        "terracrew group update platform --max-destroy 5 --max-running-jobs 10",
    ),
)
@click.argument("path", shell_complete=name_completion.groups)
@click.option("--description", help="A description.")
@click.option(
    "--interrupted",
    type=click.Choice(["ask", "retry", "inherit"]),
    help="After a change in a module below this group was cut short: ask a person first, or retry if no place above or below says ask.",
)
@approval_options.destroy_limits
@approval_options.approvers
@approval_options.min_approvals
@placement_options.for_group
@limit_options.limits
@cloud_options.cloud
@dispatcher_options.dispatcher
@output.json_option
@pass_target
def update(target: Target, path: str, description: str | None, interrupted: str | None) -> output.Result:
    """Change the group PATH, or the organization, which is `/`. Options that are not given change nothing."""
    from terracrew.client.http import segment

    changes: dict[str, Any] = approval_options.given() | placement_options.given() | limit_options.given()
    changes |= cloud_options.given() | dispatcher_options.given()
    if description is not None:
        changes["description"] = description
    if interrupted is not None:
        changes["interrupted"] = None if interrupted == "inherit" else interrupted
    if not changes:
        raise Invalid("no option was given that changes the group: see `terracrew group update --help`")
    made = target.api().patch(f"/groups/{segment(path)}", changes)
    what = f"group {made['path']}" if made["path"] else "the organization"
    return output.message(made, f"updated {what}: {', '.join(changes)}")


@group.command("delete")
@click.argument("path", shell_complete=name_completion.groups)
@output.json_option
@pass_target
def delete(target: Target, path: str) -> output.Result:
    """Delete the group PATH, which must be empty."""
    from terracrew.client.http import segment

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
