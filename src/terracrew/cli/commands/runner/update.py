"""`terracrew runner update`, `disable` and `enable`: updates runners to a release, or changes their fields."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion, numbers
from terracrew.cli.commands.runner import consequences, release_update
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.commands.runner.register import MAX_JOBS_HELP
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Invalid


@click.command(
    "update",
    epilog=output.examples(
        "terracrew runner update team/build",
        "terracrew runner update --all --dry-run",
        "terracrew runner update team/build --max-jobs 4",
    ),
)
@click.argument("path", required=False, shell_complete=name_completion.runners)
@click.option("--description", help="A description.")
@click.option("--max-jobs", type=numbers.Whole(min=1), help=MAX_JOBS_HELP)
@click.option("--tag", "tags", multiple=True, help="A tag. Can be repeated; replaces all tags. '' removes all.")
@click.option(
    "--multiple/--single", "allow_multiple_instances", default=None, help="Whether several instances are allowed."
)
@click.option(
    "--all-modules/--not-all-modules",
    "is_assigned_to_all_modules",
    default=None,
    help="Whether all modules of its group may use it.",
)
@click.option("--disable/--enable", "is_disabled", default=None, help="A disabled runner gets no new jobs.")
@click.option("--version", metavar="VERSION", help="Update the runner to this release [the latest].")
@click.option("--all", "is_all", is_flag=True, help="Update all outdated runners that you may change, in waves.")
@click.option(
    "--group",
    metavar="PATH",
    default="",
    shell_complete=name_completion.groups,
    help="With --all: only runners in this group and below it.",
)
@click.option("--dry-run", is_flag=True, help="With --all: only print what would be updated, and what by hand.")
@click.option("--accept-breaking", is_flag=True, help="Update also if a release on the way is breaking.")
@click.option("--wait/--no-wait", default=True, help="Whether to follow an update to its end [--wait].")
@click.option("--yes", "-y", is_flag=True, help="With --all: do not ask.")
@output.json_option
@pass_target
def update(
    target: Target,
    path: str | None,
    tags: tuple[str, ...],
    version: str | None,
    is_all: bool,
    group: str,
    dry_run: bool,
    accept_breaking: bool,
    wait: bool,
    yes: bool,
    **given: Any,
) -> output.Result:
    """Update the runner PATH to the latest release; with options for its fields, change these instead.

    Options that are not given change nothing. The name and the group of a runner never change.
    """
    changes = {name: value for name, value in given.items() if value is not None}
    if tags:
        changes["tags"] = [each for each in tags if each]
    _check(path, changes, is_all=is_all, is_for_all=bool(group or dry_run or yes), is_for_release=version is not None)
    if is_all:
        return release_update.update_all(
            target, group, accept_breaking=accept_breaking, dry_run=dry_run, yes=yes, wait=wait
        )
    assert path is not None
    if not changes:
        return release_update.update_one(target, path, version, accept_breaking=accept_breaking, wait=wait)
    made = target.api().patch(api_path(path), changes)
    return output.message(made, f"updated runner {made['path']}: {', '.join(changes)}")


def _check(path: str | None, changes: dict[str, Any], *, is_all: bool, is_for_all: bool, is_for_release: bool) -> None:
    """Refuse options that do not go together."""
    if is_all and (path or changes or is_for_release):
        raise Invalid(
            "--all updates all outdated runners to the latest release: it takes no PATH, no --version and no fields"
        )
    if not is_all and path is None:
        raise Invalid("name a runner, or use --all for all that are outdated: see `terracrew runner update --help`")
    if not is_all and is_for_all:
        raise Invalid("--group, --dry-run and --yes need --all")
    if changes and is_for_release:
        raise Invalid("--version updates the program of a runner: change its fields with another command")


@click.command("disable")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def disable(target: Target, path: str) -> output.Result:
    """Disable the runner PATH: it stays connected and reports, and gets no new jobs."""
    api = target.api()
    made = api.patch(api_path(path), {"is_disabled": True})
    jobs = f"; it finishes its {made['jobs']} job{'' if made['jobs'] == 1 else 's'}" if made["jobs"] else ""
    words = f"disabled {made['path']}: it gets no new jobs{jobs}"
    return output.message(made, words, *consequences.waiting_modules(api, made["id"]))


@click.command("enable")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def enable(target: Target, path: str) -> output.Result:
    """Enable the runner PATH again."""
    made = target.api().patch(api_path(path), {"is_disabled": False})
    but = ", but it drains: `terracrew runner undrain` ends that" if made["is_draining"] else ""
    return output.message(made, f"enabled {made['path']}{but}")
