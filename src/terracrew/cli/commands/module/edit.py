"""`terracrew module create`, `update`, `move`, `delete`, `lock` and `unlock`."""

from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlencode

import click
import msgspec
from msgspec.structs import replace

from terracrew.api import fields
from terracrew.api.job_views import JobListed, JobView
from terracrew.api.jobs import JobStatus
from terracrew.api.locks import Lock, ModuleLock, TakeLock
from terracrew.api.module_views import ModuleView
from terracrew.api.modules import Backend, Module, ModuleChange, ModuleMove, NewModule
from terracrew.api.pages import Page
from terracrew.cli.arguments import name_completion, settings
from terracrew.cli.arguments import source as sources
from terracrew.cli.commands import state
from terracrew.cli.commands.job.approval import give_up
from terracrew.cli.connection.target import Target
from terracrew.cli.printing import output
from terracrew.client.address import segment
from terracrew.errors import Conflict, Invalid
from terracrew.wording import lock_words, module_words

if TYPE_CHECKING:
    from terracrew.client.http import Api

_COMPLETIONS = {"runner": name_completion.runners}
_REMOVALS = {
    "runner": ("--no-runner", "Run on any runner that the module may use."),
    "runner_instance_name": ("--no-instance", "Run on any instance."),
    "tags": ("--no-tags", "Remove all tags."),
}


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
@click.option(
    "--own-backend", is_flag=True, help="Keep the state in the backend that the source configures, not in Terracrew."
)
@settings.request_options(ModuleChange, defaults=NewModule, completions=_COMPLETIONS)
@click.option("--parents", "-p", is_flag=True, help="Also create missing parent groups.")
@output.with_target
def create(
    target: Target,
    path: str,
    source: sources.SourceOptions,
    variables: tuple[str, ...],
    environment: tuple[str, ...],
    own_backend: bool,
    parents: bool,
    change: ModuleChange,
) -> output.CommandResult:
    """Create the module PATH, for example `platform/network/vpc`, from a git repository or a folder."""
    api = target.api()
    group = path.rpartition("/")[0]
    if parents and group:
        sources.ensure_group(api, group)
    found = sources.source(api, source)
    if found is None:
        raise Invalid(
            "a module needs a source",
            hint="--from ./folder uploads one, --git URL names a repository, --path a folder on the runner",
        )
    new = NewModule(
        path=path,
        source=found,
        inputs=sources.inputs(variables),
        environment=sources.environment(environment),
        backend="own" if own_backend else "terracrew",
        **fields.given(change),
    )
    made = api.post("/modules", new, Module)
    return output.message(made, f"created module {made.path}", f"run it: terracrew job run {made.path} --follow")


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
@click.option(
    "--own-backend/--no-own-backend",
    default=None,
    help="Keep the state in the backend that the source configures, or in Terracrew.",
)
@click.option(
    "--state", "state_file", type=click.File("rb"), help="With --no-own-backend: import the state in this file, too."
)
@click.option("--yes", is_flag=True, help="Do not ask before the backend changes.")
@settings.request_options(ModuleChange, removals=_REMOVALS, completions=_COMPLETIONS)
@output.with_target
def update(
    target: Target,
    path: str,
    source: sources.SourceOptions,
    variables: tuple[str, ...],
    environment: tuple[str, ...],
    unset_variables: tuple[str, ...],
    unset_environment: tuple[str, ...],
    own_backend: bool | None,
    state_file: BinaryIO | None,
    yes: bool,
    change: ModuleChange,
) -> output.CommandResult:
    """Change the module PATH. Options that are not given change nothing; --var and --env add to the existing values."""
    api = target.api()
    before = api.get(f"/modules/{segment(path)}", ModuleView)
    if found := sources.source(api, source, before.source):
        change = replace(change, source=found)
    if variables or unset_variables:
        kept = sources.without(before.inputs or {}, unset_variables, f"{path} has no input")
        change = replace(change, inputs=kept | sources.inputs(variables))
    if environment or unset_environment:
        kept = sources.without(before.environment or {}, unset_environment, f"{path} has no environment variable")
        change = replace(change, environment=kept | sources.environment(environment))
    if own_backend is not None:
        change = replace(change, backend="own" if own_backend else "terracrew")
    changes = settings.read_changes(change)
    confirm(before, changes.get("backend"), state_file, is_confirmed=yes)
    if state_file is not None:
        bring_state(api, path, state_file)
    made = api.patch(f"/modules/{segment(path)}", change, Module)
    return output.message(made, f"updated module {made.path}: {', '.join(changes)}")


@click.command(
    "move",
    epilog=output.examples(
        "terracrew module move platform/netwrok platform/network",
        "terracrew module move platform/network shared/network",
    ),
)
@click.argument("path", shell_complete=name_completion.modules)
@click.argument("to")
@output.with_target
def move(target: Target, path: str, to: str) -> output.CommandResult:
    """Rename the module PATH, or move it to another group: TO is its new path.

    It keeps its jobs, states, inputs and roles. The rules, inputs, hooks and runners of its new groups apply from then on.
    """
    made = target.api().post(f"/modules/{segment(path)}/move", ModuleMove(to), Module)
    return output.message(made, f"moved module {path} to {made.path}")


@click.command("delete")
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--force", is_flag=True, help="Also delete its jobs, logs and states, and if others use its outputs.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def delete(target: Target, path: str, force: bool, yes: bool) -> output.CommandResult:
    """Delete the module PATH. Its resources continue to exist: run a destroy job first."""
    if not yes:
        if force and (users := target.api().get(f"/modules/{segment(path)}", ModuleView).used_by):
            output.note(f"{module_words.used_by(users)}. Their jobs fail without it, except those that destroy.")
        output.ask(f"Delete {path}{' with its jobs, logs and states' if force else ''}?", "Not deleted.")
    target.api().delete(f"/modules/{segment(path)}{'?force=true' if force else ''}")
    return output.message({"deleted": path}, f"deleted module {path}")


def confirm(before: ModuleView, after: Backend | None, file: BinaryIO | None, *, is_confirmed: bool) -> None:
    """Return if the new backend does not leave the state of the module behind, or if the person at the terminal says yes."""
    if file is not None and after != "terracrew":
        raise Invalid("--state brings a state to Terracrew, so it needs --no-own-backend")
    if after is None or file is not None or is_confirmed:
        return
    if words := module_words.backend_warning(before.path, before.backend, after, before.state_version):
        output.note(words)
        output.ask("Change the backend nevertheless?", "The module stays as it is.")


def bring_state(api: "Api", path: str, file: BinaryIO) -> None:
    """Import the state of a file and change the backend in one step, so that no job finds the new backend without the state."""
    made = state.upload(api, path, file.read(), force=False, changes_backend=True)
    output.note(f"imported the state with serial {made.serial} as version {made.version}")


@click.command("lock", epilog=output.examples('terracrew module lock platform/network --reason "moving resources"'))
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--reason", default="", help="Why, for everybody who waits.")
@output.with_target
def lock(target: Target, path: str, reason: str) -> output.CommandResult:
    """Lock the module PATH: no job of it starts until it is unlocked. The lock does not expire."""
    made = target.api().post(f"/modules/{segment(path)}/lock", TakeLock(reason), ModuleLock)
    return output.message(made, f"locked {path}; `terracrew module unlock {path}` unlocks it")


class _LockedModule(msgspec.Struct, frozen=True):
    """What is needed here of a module."""

    lock: Lock | None = None


@click.command("unlock")
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--force", is_flag=True, help="Also if another person or another token holds the lock.")
@click.option("--reason", default="", help="With --force: why.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.with_target
def unlock(target: Target, path: str, force: bool, reason: str, yes: bool) -> output.CommandResult:
    """Unlock the module PATH, if you have locked it, or if the attempt that holds its lock is lost.

    For a lost attempt, this is the same as `terracrew job gone`. With --force, the lock of another person is removed: make sure
    that no engine of theirs is at work. What it writes afterwards does not become the current state.
    """
    api = target.api()
    holder = _holder(api, path)
    if holder is None or holder.lock is None:
        held = api.get(f"/modules/{segment(path)}", _LockedModule).lock
        if held is not None and held.person is not None:
            return _unlock_person(api, path, held.person, reason, is_forced=force, is_confirmed=yes)
        return output.message({"lock": None}, f"the lock of {path} is free")
    if not holder.lock.lost_at:
        raise Conflict(
            f"job {holder.number} holds the lock of {path} and is in contact, so the lock stays",
            hint=f"`terracrew job cancel {holder.number}` asks it to end",
        )
    return give_up(api, holder, holder.lock.attempt, yes)


def _unlock_person(
    api: "Api", path: str, held: ModuleLock, reason: str, *, is_forced: bool, is_confirmed: bool
) -> output.CommandResult:
    who = lock_words.holder(held.holder_kind, held.holder_name, held.credential)
    if is_forced and not is_confirmed:
        output.note(f"{who} holds the lock of {path}, taken {output.moment(held.created_at)}.")
        output.ask("Make sure that no engine works there. Remove the lock?", "The module stays locked.")
    query = {"id": held.id} | ({"force": "true", "reason": reason} if is_forced else {})
    api.delete(f"/modules/{segment(path)}/lock?{urlencode(query)}")
    return output.message({"lock": None}, f"unlocked {path}" + (f", which {who} had locked" if is_forced else ""))


def _holder(api: "Api", path: str) -> JobView | None:
    """Return the job that holds the module's lock."""
    for status in (JobStatus.PROCESSING, JobStatus.CLAIMED):
        for found in api.get("/jobs", Page[JobListed], module=path, status=status, limit=1).items:
            return api.get(f"/jobs/{found.id}", JobView)
    return None
