"""`terracrew module`: lists and shows modules, what blocks their jobs, and what the jobs have left; `edit` has its other commands."""

from collections.abc import Mapping
from typing import get_args

import click
import msgspec

from terracrew.api.groups import RuleName
from terracrew.api.inputs import Dependency
from terracrew.api.job_views import AttemptReport
from terracrew.api.module_views import ModuleListed, ModuleView, NewestJobStatus, Quarantined
from terracrew.api.modules import ModuleSettings
from terracrew.api.states import JobOutputs, ModuleOutput, ModuleOutputs, Resources, State
from terracrew.cli.arguments import name_completion, references
from terracrew.cli.commands import input as inputs
from terracrew.cli.commands.job import render
from terracrew.cli.commands.module import edit
from terracrew.cli.connection.target import Target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import details, output, streams
from terracrew.client.address import segment
from terracrew.errors import Invalid, NotFound
from terracrew.wording import approval_words, discovery_words, module_words
from terracrew.wording.durations import written

_COMPOSED = {
    *get_args(RuleName),
    *("needs_approval", "approval_seconds", "engine_version", "triggers", "runner_instance_name", "tags"),
}
"""The settings that rows with other labels show."""


@click.command(
    "list",
    epilog=output.examples(
        "terracrew module list platform",
        "terracrew module list --status failed --search network",
        "terracrew module list --attention",
    ),
)
@click.argument("group", default="", shell_complete=name_completion.groups)
@click.option(
    "--search", metavar="WORDS", default="", help="Only modules with these words in path, description or team."
)
@click.option(
    "--status",
    type=click.Choice(get_args(NewestJobStatus), case_sensitive=False),
    metavar="STATUS",
    help="Only modules whose newest job has this status; `open`: has not ended; `none`: there is none.",
)
@click.option("--engine", metavar="NAME", default="", help="Only modules of this engine.")
@click.option(
    "--runner",
    metavar="PATH",
    default="",
    shell_complete=name_completion.runners,
    help="Only modules for which this runner is chosen, or that ran on it last.",
)
@click.option(
    "--attention", is_flag=True, help="Only modules that are in doubt or have a state in quarantine, or a lost lock."
)
@output.with_target
def list_modules(
    target: Target, group: str, search: str, status: str | None, engine: str, runner: str, attention: bool
) -> output.CommandResult:
    """List the modules of the organization, or those below GROUP."""
    wanted = {"search": search, "status": status, "engine": engine, "runner": runner, "attention": attention}
    asked = {name: value for name, value in wanted.items() if value}
    items = list(target.api().list("/modules", ModuleListed, group=group or None, recursive=True, **asked))
    rows = [
        (
            each.path,
            *_newest_job(each),
            each.state_version or "",
            each.engine,
            module_words.described_source(each.source),
        )
        for each in items
    ]
    columns = ("PATH", "STATUS", "NEWEST JOB", "STATE", "ENGINE", "SOURCE")
    return output.listing(
        items, columns, rows, empty="no module matches" if asked else "no modules yet: `terracrew module create`"
    )


def _newest_job(module: ModuleListed) -> tuple[str, str]:
    """Return the status of a module's newest job, and which job it is."""
    doubt = "in doubt" if module.is_in_doubt else ""
    if not (job := module.newest_job):
        return doubt, ""
    return ", ".join(filter(None, (job.status, doubt))), f"{job.type} #{job.number}, {output.age(job.at)}"


@click.command("show")
@click.argument("path", shell_complete=name_completion.modules)
@output.with_target
def show_module(target: Target, path: str) -> output.CommandResult:
    """Show the module PATH, and what blocks its jobs."""
    api = target.api()
    found = api.get(f"/modules/{segment(path)}", ModuleView)
    rules = found.approval_rules
    words = render.place_words(found) | {
        "source": module_words.described_source(found.source),
        "engine": f"{found.engine} {found.engine_version}".strip(),
        "environment": sorted(found.environment or ()),
        "dispatcher": module_words.described_choice(found.applying_dispatcher, found.dispatcher_from),
    }
    return output.details(
        found,
        [
            ("path", found.path),
            ("id", found.id),
            *details.rows(found, ModuleSettings, words, without=_COMPOSED),
            ("applied by itself", "when an output that it uses changes" if found.triggers == "auto" else ""),
            *render.placement(found.placement),
            ("state", f"version {found.state_version}" if found.state_version else "none yet"),
            ("source gone", discovery_words.gone(found.source_gone) if found.source_gone else ""),
            ("lock", render.lock(found.lock)),
            *([("in doubt", found.lock_doubt)] if found.lock_doubt else []),
            ("backend lock", render.held_lock(found.held_lock)),
            *(("set back", render.hold(each)) for each in found.holds),
            *(("in doubt", each) for each in _doubts(found.doubts)),
            *(("in quarantine", each) for each in _quarantined(found.path, found.quarantined)),
            ("approval", f"{approval_words.requirement(rules)}, within {written(found.approval_seconds)}"),
            ("used by", found.used_by and module_words.used_by(found.used_by)),
            *(("approval rule", each) for each in approval_words.described(rules)),
            ("created", output.age(found.created_at)),
        ],
    )


def _doubts(doubts: list[AttemptReport]) -> list[str]:
    """Describe the attempts that put a module in doubt, and what to do about them."""
    found = [
        f"attempt {each.attempt} of job #{each.number} on {render.runner(each)}, {output.moment(each.ended_at)}: {each.reason}"
        for each in doubts
    ]
    if found:
        found.append(
            "every plan waits for approval: `terracrew job show` shows what is known; then approve or decline the plan"
        )
    return found


def _quarantined(path: str, states: list[Quarantined]) -> list[str]:
    """Describe the quarantined states of a module, and what to do about them."""
    found: list[str] = []
    for each in states:
        what = f"not adoptable ({each.problem})" if each.problem else f"serial {each.serial}"
        came = output.moment(each.created_at)
        by = (
            f"attempt {each.attempt} of job #{each.number}"
            if each.number
            else f"{output.text(each.written_by)} at a terminal"
        )
        found.append(f"{each.id}, {what}, of {by}, {came}")
    if found:
        decide = f"`terracrew state list {path} --quarantined`, then `terracrew state adopt` or `discard`"
        found.append(f"no job runs before these are decided: {decide}")
    return found


@click.command("state")
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--versions", is_flag=True, help="List all versions instead.")
@click.option("--version", "version_id", metavar="N", help="Print this version (or id) instead of the current one.")
@output.with_target
def state(target: Target, path: str, versions: bool, version_id: str | None) -> output.CommandResult | None:
    """Print the current state of the module PATH as its engine wrote it."""
    api = target.api()
    if not versions:
        found = references.state(api, version_id, path) if version_id else ""
        place = f"/states/{segment(found)}" if found else f"/modules/{segment(path)}/state"
        with streams.document_output() as stream:
            api.download(place, stream)
        return None
    items = list(api.list(f"/modules/{segment(path)}/states", State))
    rows = [(i.version or i.id, i.status, i.serial, i.size, output.age(i.created_at)) for i in items]
    return output.listing(
        items, ("STATE", "STATUS", "SERIAL", "BYTES", "ARRIVED"), rows, empty=f"{path} has no state yet"
    )


@click.command("outputs")
@click.argument("path", shell_complete=name_completion.modules)
@click.argument("name", required=False)
@click.option("--sensitive", is_flag=True, help="Also show sensitive values. This is recorded in the audit log.")
@output.with_target
def outputs(target: Target, path: str, name: str | None, sensitive: bool) -> output.CommandResult:
    """Print the outputs of the module PATH, or the one called NAME."""
    found = target.api().get(f"/modules/{segment(path)}/outputs", ModuleOutputs, sensitive=sensitive or None)
    if found.outdated_since:
        origin = f"are from {found.job_id}" if found.job_id else "are of unknown origin"
        since = output.moment(found.outdated_since)
        changer = (
            f"job {found.outdated_by} has changed the module" if found.outdated_by else "a person has written the state"
        )
        output.note(f"these outputs {origin}; {changer} since ({since})")
    return show_outputs(found, path, name, sensitive=sensitive)


@click.command("resources")
@click.argument("path", shell_complete=name_completion.modules)
@output.with_target
def resources(target: Target, path: str) -> output.CommandResult:
    """List the resources in the current state of the module PATH."""
    found = target.api().get(f"/modules/{segment(path)}/resources", Resources)
    rows = [(each,) for each in found.addresses]
    more = (found.count or 0) - len(rows)
    notes = [f"and {more} more"] if more > 0 else []
    return output.listing(found, ("RESOURCE",), rows, empty=f"{path} has no known resources", notes=notes)


@click.command("dependencies")
@click.argument("path", shell_complete=name_completion.modules)
@output.with_target
def dependencies(target: Target, path: str) -> output.CommandResult:
    """List the outputs of other modules that the module PATH uses, and the modules that use its outputs."""
    api = target.api()
    place = f"/modules/{segment(path)}/dependencies"
    found = {direction: list(api.list(place, Dependency, direction=direction)) for direction in ("needs", "used_by")}
    rows = [("needs", *_row(each), _status(each)) for each in found["needs"]]
    rows += [("used by", *_row(each), _follows(each)) for each in found["used_by"]]
    empty = f"no dependencies: `terracrew input set {path} NAME --output MODULE:OUTPUT` makes one"
    return output.listing(found, ("", "ID", "MODULE", "OUTPUT", "INPUT", "SET BY", ""), rows, empty=empty)


@click.command("end-use")
@click.argument("path", shell_complete=name_completion.modules)
@click.argument("dependency")
@output.with_target
def end_use(target: Target, path: str, dependency: str) -> output.CommandResult:
    """End the use of an output of the module PATH by another one. DEPENDENCY is its id in `module dependencies`.

    Jobs of the other module wait from then on, until somebody who may read the state of PATH sets the input again.
    """
    target.api().delete(f"/modules/{segment(path)}/dependencies/{segment(dependency)}")
    return output.message(
        {"ended": dependency}, f"ended {dependency}: the other module does not get this output of {path} any more"
    )


def _row(each: Dependency) -> tuple[str, ...]:
    module = each.path or ("a deleted module" if each.is_deleted else module_words.HIDDEN)
    return each.id, module, each.output, inputs.name_of(each), each.set_by_name


def _follows(each: Dependency) -> str:
    return _ended(each) or ("applied by itself" if each.triggers == "auto" else "")


def _status(each: Dependency) -> str:
    if each.is_outdated:
        return _ended(each) or "its outputs are those of an older job: jobs wait until it is applied again"
    return _ended(each) or ("has no outputs yet: jobs wait" if each.is_waited_for else "")


def _ended(each: Dependency) -> str:
    if each.ended_by_name:
        return f"ended by {each.ended_by_name}: jobs wait"
    return f"{each.set_by_name} may not read the state any more: jobs wait" if each.is_ended else ""


def show_outputs(found: JobOutputs, owner: str, name: str | None, *, sensitive: bool) -> output.CommandResult:
    """Return what the API has answered as the result of a command. The checksum is a note, so that the rest can be piped."""
    if name:
        return _show_one(found.outputs, owner, name, sensitive=sensitive)
    rows = [
        (key, "(sensitive)" if each.sensitive and not sensitive else _cell(each.value))
        for key, each in found.outputs.items()
    ]

    def show() -> None:
        output.table(("NAME", "VALUE"), rows, empty=f"{owner} has no outputs")
        if found.checksum:
            output.note(f"checksum {found.checksum}, read by {found.job_id}")

    return output.CommandResult(found, show)


def _show_one(values: Mapping[str, ModuleOutput], owner: str, name: str, *, sensitive: bool) -> output.CommandResult:
    if name not in values:
        raise NotFound(f"{owner} has no output {name!r}", hint=f"it has: {', '.join(values) or 'none'}")
    if values[name].sensitive and not sensitive:
        raise Invalid(f"the output {name!r} is sensitive", hint="--sensitive prints it")
    value = values[name].value
    return output.message(value, value if isinstance(value, str) else output.text(value))


def _cell(value: object) -> str:
    """Return a value as a cell of the table. A text of several lines is one in JSON, as engines print it, so that its lines can be told."""
    is_broken = isinstance(value, str) and "\n" in value
    return output.text(msgspec.json.encode(value).decode() if is_broken else value)


@click.group(cls=LazyGroup)
def module() -> None:
    """Create, change and inspect modules. A module is a source, an engine and its inputs."""


for _command in (list_modules, show_module, edit.create, edit.update, edit.move, edit.delete, edit.lock, edit.unlock):
    module.add_command(_command)
for _command in (state, outputs, resources, dependencies, end_use):
    module.add_command(_command)
