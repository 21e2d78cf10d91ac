"""`terracrew module create`, `update`, `move`, `delete` and `unlock`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from terracrew.cli.arguments import (
    approval_options,
    cloud_options,
    dispatcher_options,
    limit_options,
    name_completion,
    placement_options,
)
from terracrew.cli.arguments import source as sources
from terracrew.cli.arguments.values import Duration
from terracrew.cli.commands import state
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Invalid
from terracrew.wording import backend_words, dependency_words

if TYPE_CHECKING:
    from terracrew.client.http import Api
from typing import TYPE_CHECKING

from terracrew.cli.commands.job.approval import give_up
from terracrew.errors import Conflict

_needs_approval = click.option(
    "--needs-approval/--no-needs-approval", default=None, help="Whether a person must approve each plan first."
)
_approval_timeout = click.option(
    "--approval-timeout",
    type=Duration(),
    metavar="24h",
    help="How long a plan waits for approval before it is declined: 60s or more.",
)
_interrupted = click.option(
    "--interrupted",
    type=click.Choice(["ask", "retry", "inherit"]),
    help="After a change that was cut short: ask a person first (the default), or retry if no group above says ask.",
)

_triggers = click.option(
    "--triggers",
    type=click.Choice(["auto", "manual"]),
    help="auto: an apply of another module that changes an output which this one uses queues an apply of this one.",
)
_fresh = click.option(
    "--fresh/--no-fresh", default=None, help="Whether each job runs init, even if nothing that it reads has changed."
)


@click.command(
    "create",
    epilog=output.examples(
        "terracrew module create platform/network --from ./network",
        "terracrew module create shop/web --parents --var size=3 \\",
        "    --git https://git.example.com/acme/shop.git --version '~> 1.2'",
        "terracrew module create shop/db --from ./db --needs-approval",
        "terracrew module create shop/queue --from ./queue --engine pulumi",
    ),
)
@click.argument("path", shell_complete=name_completion.groups)
@sources.source_options
@sources.input_options
@sources.audience_option
@click.option(
    "--engine",
    metavar="NAME",
    default="tofu",
    show_default=True,
    help="The engine that runs it: tofu, terraform, pulumi, or one that a package on the runners provides.",
)
@click.option(
    "--engine-version",
    metavar="RANGE",
    help='The versions of the engine that may run it: 1.12.6, "~> 1.12" or ">= 1.5, < 2". By default any.',
)
@click.option(
    "--own-backend", is_flag=True, help="Keep the state in the backend that the source configures, not in Terracrew."
)
@placement_options.for_new_module
@limit_options.limits
@cloud_options.cloud
@dispatcher_options.dispatcher
@click.option("--description", default="", help="A description.")
@_needs_approval
@_approval_timeout
@_interrupted
@_triggers
@_fresh
@approval_options.min_approvals
@approval_options.destroy_limits
@click.option("--parents", "-p", is_flag=True, help="Also create missing parent groups.")
@output.json_option
@pass_target
def create(
    target: Target,
    path: str,
    folder: Path | None,
    local_path: str | None,
    subdirectory: str,
    variables: tuple[str, ...],
    environment: tuple[str, ...],
    audiences: tuple[str, ...],
    engine: str,
    engine_version: str | None,
    own_backend: bool,
    description: str,
    needs_approval: bool | None,
    approval_timeout: int | None,
    interrupted: str | None,
    triggers: str | None,
    fresh: bool | None,
    parents: bool,
) -> output.Result:
    """Create the module PATH, for example `platform/network/vpc`, from a git repository or a folder."""
    api = target.api()
    body: dict[str, Any] = {
        "path": path,
        "engine": engine,
        "inputs": sources.inputs(variables),
        "environment": sources.environment(environment),
        "backend": "own" if own_backend else "terracrew",
        "description": description,
    }
    if engine_version is not None:
        body["engine_version"] = engine_version
    if triggers is not None:
        body["triggers"] = triggers
    if fresh is not None:
        body["is_fresh"] = fresh
    if audiences:
        body["oidc_audiences"] = [each for each in audiences if each]
    body |= _approval(needs_approval, approval_timeout, interrupted) | placement_options.given() | cloud_options.given()
    body |= dispatcher_options.given()
    group = path.rpartition("/")[0]
    if parents and group:
        sources.ensure_group(api, group)
    body["source"] = sources.source(api, folder, local_path, subdirectory)
    if body["source"] is None:
        raise Invalid(
            "a module needs a source",
            hint="--from ./folder uploads one, --git URL names a repository, --path a folder on the runner",
        )
    made = api.post("/modules", body)
    return output.message(made, f"created module {made['path']}", f"run it: terracrew job run {made['path']} --follow")


@click.command(
    "update",
    epilog=output.examples(
        "terracrew module update platform/network --from ./network",
        "terracrew module update shop/web --version '~> 1.3' --var size=5",
        "terracrew module update shop/web --runner platform/edge --triggers auto",
    ),
)
@click.argument("path", shell_complete=name_completion.modules)
@sources.source_options
@sources.input_options
@sources.removal_options
@sources.audience_option
@click.option("--engine", metavar="NAME", help="The engine that runs it.")
@click.option(
    "--engine-version", metavar="RANGE", help='The versions of the engine that may run it; "" accepts any again.'
)
@click.option(
    "--own-backend/--no-own-backend",
    default=None,
    help="Keep the state in the backend that the source configures, or in Terracrew.",
)
@click.option(
    "--state", "state_file", type=click.File("rb"), help="With --no-own-backend: import the state in this file, too."
)
@click.option("--yes", is_flag=True, help="Do not ask before the backend changes.")
@placement_options.for_module
@limit_options.limits
@cloud_options.cloud
@dispatcher_options.dispatcher
@click.option("--description", help="A description.")
@_needs_approval
@_approval_timeout
@_interrupted
@_triggers
@_fresh
@approval_options.min_approvals
@approval_options.destroy_limits
@output.json_option
@pass_target
def update(
    target: Target,
    path: str,
    folder: Path | None,
    local_path: str | None,
    subdirectory: str,
    variables: tuple[str, ...],
    environment: tuple[str, ...],
    unset_variables: tuple[str, ...],
    unset_environment: tuple[str, ...],
    audiences: tuple[str, ...],
    engine: str | None,
    engine_version: str | None,
    own_backend: bool | None,
    state_file: BinaryIO | None,
    yes: bool,
    description: str | None,
    needs_approval: bool | None,
    approval_timeout: int | None,
    interrupted: str | None,
    triggers: str | None,
    fresh: bool | None,
) -> output.Result:
    """Change the module PATH. Options that are not given change nothing; --var and --env add to the existing values."""
    from terracrew.client.http import segment

    api = target.api()
    before = api.get(f"/modules/{segment(path)}")
    changes = (
        _approval(needs_approval, approval_timeout, interrupted) | placement_options.given() | cloud_options.given()
    )
    changes |= dispatcher_options.given()
    if found := sources.source(api, folder, local_path, subdirectory, before["source"]):
        changes["source"] = found
    if variables or unset_variables:
        kept = sources.without(before["inputs"], unset_variables, f"{path} has no input")
        changes["inputs"] = kept | sources.inputs(variables)
    if environment or unset_environment:
        kept = sources.without(before["environment"], unset_environment, f"{path} has no environment variable")
        changes["environment"] = kept | sources.environment(environment)
    if engine is not None:
        changes["engine"] = engine
    if engine_version is not None:
        changes["engine_version"] = engine_version
    if triggers is not None:
        changes["triggers"] = triggers
    if fresh is not None:
        changes["is_fresh"] = fresh
    if own_backend is not None:
        changes["backend"] = "own" if own_backend else "terracrew"
    if audiences:
        changes["oidc_audiences"] = [each for each in audiences if each]
    if description is not None:
        changes["description"] = description
    if not changes:
        raise Invalid("no option was given that changes the module: see `terracrew module update --help`")
    confirm(before, changes, state_file, is_confirmed=yes)
    if state_file is not None:
        bring_state(api, path, state_file)
    made = api.patch(f"/modules/{segment(path)}", changes)
    return output.message(made, f"updated module {made['path']}: {', '.join(changes)}")


@click.command(
    "move",
    epilog=output.examples(
        "terracrew module move platform/netwrok platform/network",
        "terracrew module move platform/network shared/network",
    ),
)
@click.argument("path", shell_complete=name_completion.modules)
@click.argument("to")
@output.json_option
@pass_target
def move(target: Target, path: str, to: str) -> output.Result:
    """Rename the module PATH, or move it to another group: TO is its new path.

    It keeps its jobs, states, inputs and roles. The rules, inputs, hooks and runners of its new groups apply from then on.
    """
    from terracrew.client.http import segment

    made = target.api().post(f"/modules/{segment(path)}/move", {"path": to})
    return output.message(made, f"moved module {path} to {made['path']}")


@click.command("delete")
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--force", is_flag=True, help="Also delete its jobs, logs and states, and if others use its outputs.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def delete(target: Target, path: str, force: bool, yes: bool) -> output.Result:
    """Delete the module PATH. Its resources continue to exist: run a destroy job first."""
    from terracrew.client.http import segment

    if not yes:
        if force and (users := target.api().get(f"/modules/{segment(path)}").get("used_by")):
            output.note(f"{dependency_words.used_by(users)}. Their jobs fail without it, except those that destroy.")
        output.ask(f"Delete {path}{' with its jobs, logs and states' if force else ''}?", "Not deleted.")
    target.api().delete(f"/modules/{segment(path)}{'?force=true' if force else ''}")
    return output.message({"deleted": path}, f"deleted module {path}")


def _approval(needs_approval: bool | None, approval_timeout: int | None, interrupted: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {"needs_approval": needs_approval, "approval_seconds": approval_timeout}
    found = {name: value for name, value in given.items() if value is not None}
    if interrupted is not None:
        found["interrupted"] = None if interrupted == "inherit" else interrupted
    return found | approval_options.given() | limit_options.given()


def confirm(before: dict[str, Any], changes: dict[str, Any], file: BinaryIO | None, *, is_confirmed: bool) -> None:
    """Return if the changes do not leave the state of the module behind, or if the person at the terminal says yes."""
    after = changes.get("backend")
    if file is not None and after != "terracrew":
        raise Invalid("--state brings a state to Terracrew, so it needs --no-own-backend")
    if after is None or file is not None or is_confirmed:
        return
    if words := backend_words.warning(before["path"], before["backend"], after, before.get("state_version") or 0):
        output.note(words)
        output.ask("Change the backend nevertheless?", "The module stays as it is.")


def bring_state(api: "Api", path: str, file: BinaryIO) -> None:
    """Import the state of a file and change the backend in one step, so that no job finds the new backend without the state."""
    made = state.upload(api, path, file.read(), force=False, changes_backend=True)
    output.note(f"imported the state with serial {made['serial']} as version {made['version']}")


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
