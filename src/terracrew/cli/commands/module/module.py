"""`terracrew module`: creates, changes and shows modules, their states and their outputs."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.arguments import approval_options, name_completion, references
from terracrew.cli.arguments import source as sources
from terracrew.cli.arguments.durations import Duration, written
from terracrew.cli.commands.job import approval, follow, render
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from terracrew.client.http import Api

_needs_approval = click.option(
    "--needs-approval/--no-needs-approval", default=None, help="Whether a person must approve each plan first."
)
_approval_timeout = click.option(
    "--approval-timeout",
    type=Duration(),
    metavar="24h",
    help="How long a plan waits for approval before it is declined.",
)

_interrupted = click.option(
    "--interrupted",
    type=click.Choice(["ask", "retry", "inherit"]),
    help="After a change that was cut short: ask a person first (the default for the organization), or retry.",
)


@click.group()
def module() -> None:
    """Create, change and inspect modules. A module is a source, an engine and its inputs."""


@module.command("list")
@click.argument("group", default="", shell_complete=name_completion.groups)
@output.json_option
@pass_target
def list_modules(target: Target, group: str, as_json: bool) -> None:
    """List the modules of the organization, or those below GROUP."""
    items = list(target.api().list("/modules", group=group or None, recursive=True))
    if as_json:
        return output.as_json(items)
    rows = [(item["path"], item["engine"], _source(item["source"]), output.age(item["created_at"])) for item in items]
    return output.table(
        ("PATH", "ENGINE", "SOURCE", "CREATED"), rows, empty="no modules yet: `terracrew module create`"
    )


@module.command("create")
@click.argument("path", shell_complete=name_completion.groups)
@sources.source_options
@sources.input_options
@sources.audience_option
@click.option("--engine", type=click.Choice(["tofu", "terraform", "pulumi"]), default="tofu", show_default=True)
@click.option(
    "--own-backend", is_flag=True, help="Keep the state in the backend that the source configures, not in Terracrew."
)
@click.option("--runner", metavar="PATH", shell_complete=name_completion.runners, help="Run on this runner only.")
@click.option("--instance", metavar="NAME", help="Run on this instance of the runner only.")
@click.option("--description", default="", help="A description.")
@_needs_approval
@_approval_timeout
@_interrupted
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
    own_backend: bool,
    runner: str | None,
    instance: str | None,
    description: str,
    needs_approval: bool | None,
    approval_timeout: int | None,
    interrupted: str | None,
    parents: bool,
    as_json: bool,
) -> None:
    """Create the module PATH, for example `platform/network/vpc`, from a folder."""
    api = target.api()
    body: dict[str, Any] = {
        "path": path,
        "engine": engine,
        "inputs": sources.inputs(variables),
        "environment": sources.environment(environment),
        "backend": "own" if own_backend else "terracrew",
        "description": description,
    }
    if audiences:
        body["oidc_audiences"] = [each for each in audiences if each]
    body |= _approval(needs_approval, approval_timeout, interrupted)
    if runner:
        body["runner"] = runner
    if instance:
        body["runner_instance_name"] = instance
    group = path.rpartition("/")[0]
    if parents and group:
        _ensure_group(target, group)
    body["source"] = sources.source(api, folder, local_path, subdirectory)
    if body["source"] is None:
        raise Invalid("a module needs a source", hint="--from ./folder uploads one, --path names one on the runner")
    made = api.post("/modules", body)
    if as_json:
        return output.as_json(made)
    click.echo(f"created module {made['path']}")
    return output.note(f"run it: terracrew job run {made['path']} --follow")


@module.command("update")
@click.argument("path", shell_complete=name_completion.modules)
@sources.source_options
@sources.input_options
@sources.removal_options
@sources.audience_option
@click.option("--engine", type=click.Choice(["tofu", "terraform", "pulumi"]), help="The engine that runs it.")
@click.option(
    "--runner",
    metavar="PATH",
    shell_complete=name_completion.runners,
    help="Run on this runner only; '' lets Terracrew choose again.",
)
@click.option("--instance", metavar="NAME", help="Run on this instance of the runner only; '' allows all of them.")
@click.option("--description", help="A description.")
@_needs_approval
@_approval_timeout
@_interrupted
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
    runner: str | None,
    instance: str | None,
    description: str | None,
    needs_approval: bool | None,
    approval_timeout: int | None,
    interrupted: str | None,
    as_json: bool,
) -> None:
    """Change the module PATH. Options that are not given change nothing; --var and --env add to the existing values."""
    from terracrew.client.http import segment

    api = target.api()
    before = api.get(f"/modules/{segment(path)}")
    changes = _approval(needs_approval, approval_timeout, interrupted)
    if found := sources.source(api, folder, local_path, subdirectory):
        changes["source"] = found
    if variables or unset_variables:
        kept = sources.without(before["inputs"], unset_variables, f"{path} has no input")
        changes["inputs"] = kept | sources.inputs(variables)
    if environment or unset_environment:
        kept = sources.without(before["environment"], unset_environment, f"{path} has no environment variable")
        changes["environment"] = kept | sources.environment(environment)
    if engine is not None:
        changes["engine"] = engine
    if runner is not None:
        changes["runner"] = runner or None
    if instance is not None:
        changes["runner_instance_name"] = instance or None
    if audiences:
        changes["oidc_audiences"] = [each for each in audiences if each]
    if description is not None:
        changes["description"] = description
    if not changes:
        raise Invalid("no option was given that changes the module: see `terracrew module update --help`")
    made = api.patch(f"/modules/{segment(path)}", changes)
    if as_json:
        return output.as_json(made)
    return click.echo(f"updated module {made['path']}: {', '.join(changes)}")


@module.command("show")
@click.argument("path", shell_complete=name_completion.modules)
@output.json_option
@pass_target
def show_module(target: Target, path: str, as_json: bool) -> None:
    """Show the module PATH, and what blocks its jobs."""
    from terracrew.client.http import segment

    api = target.api()
    found = api.get(f"/modules/{segment(path)}")
    if as_json:
        return output.as_json(found)
    doubts, quarantined = _standing(found)
    approval = written(found["approval_seconds"]) if found.get("needs_approval") else ""
    return output.facts(
        [
            ("path", found["path"]),
            ("id", found["id"]),
            ("description", found["description"]),
            ("engine", found["engine"]),
            ("source", _source(found["source"])),
            ("inputs", found["inputs"]),
            ("environment", sorted(found["environment"])),
            ("if cut short", found.get("interrupted") or "inherited from its group"),
            ("oidc audiences", found.get("oidc_audiences")),
            ("state", f"version {found['state_version']}" if found.get("state_version") else "none yet"),
            ("lock", render.lock(found.get("lock"))),
            *(("in doubt", each) for each in doubts),
            *(("in quarantine", each) for each in quarantined),
            ("needs approval", approval and f"each plan, within {approval}"),
            ("created", output.age(found["created_at"])),
        ]
    )


@module.command("unlock")
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def unlock(target: Target, path: str, yes: bool, as_json: bool) -> None:
    """Free the lock of the module PATH if the attempt that holds it is lost. This is the same as `terracrew job gone`."""
    api = target.api()
    holder = _holder(api, path)
    if holder is None or not holder["lock"]:
        return output.as_json({"lock": None}) if as_json else click.echo(f"the lock of {path} is free")
    if not holder["lock"].get("lost_at"):
        raise Conflict(
            f"job {holder['number']} holds the lock of {path} and is in contact, so the lock stays",
            hint=f"`terracrew job cancel {holder['number']}` asks it to end",
        )
    return approval.give_up(api, holder, holder["lock"]["attempt"], yes, as_json)


@module.command("delete")
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--force", is_flag=True, help="Also delete its jobs, logs and states.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output.json_option
@pass_target
def delete(target: Target, path: str, force: bool, yes: bool, as_json: bool) -> None:
    """Delete the module PATH. Its resources continue to exist: run a destroy job first."""
    from terracrew.client.http import segment

    if not yes:
        output.ask(f"Delete {path}{' with its jobs, logs and states' if force else ''}?", "Not deleted.")
    target.api().delete(f"/modules/{segment(path)}{'?force=true' if force else ''}")
    if as_json:
        return output.as_json({"deleted": path})
    return click.echo(f"deleted module {path}")


@module.command("state")
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--versions", is_flag=True, help="List all versions instead.")
@click.option("--version", "version_id", metavar="N", help="Print this version (or id) instead of the current one.")
@output.json_option
@pass_target
def state(target: Target, path: str, versions: bool, version_id: str | None, as_json: bool) -> None:
    """Print the current state of the module PATH as its engine wrote it."""
    from terracrew.client.http import segment

    api = target.api()
    if not versions:
        found = references.state(api, version_id, path) if version_id else ""
        place = f"/states/{segment(found)}" if found else f"/modules/{segment(path)}/state"
        with follow.document_output() as stream:
            return api.download(place, stream)
    items = list(api.list(f"/modules/{segment(path)}/states"))
    if as_json:
        return output.as_json(items)
    rows = [(i["version"] or i["id"], i["status"], i["serial"], i["size"], output.age(i["created_at"])) for i in items]
    return output.table(("STATE", "STATUS", "SERIAL", "BYTES", "ARRIVED"), rows, empty=f"{path} has no state yet")


@module.command("outputs")
@click.argument("path", shell_complete=name_completion.modules)
@click.argument("name", required=False)
@click.option("--sensitive", is_flag=True, help="Also show sensitive values. This is recorded in the audit log.")
@output.json_option
@pass_target
def outputs(target: Target, path: str, name: str | None, sensitive: bool, as_json: bool) -> None:
    """Print the outputs of the module PATH, or the one called NAME."""
    from terracrew.client.http import segment

    found = target.api().get(f"/modules/{segment(path)}/outputs", sensitive=sensitive or None)
    values: dict[str, Any] = found["outputs"]
    if since := found.get("outdated_since"):
        origin = f"are from {found['job_id']}" if found.get("job_id") else "are of unknown origin"
        output.note(
            f"these outputs {origin}; job {found['outdated_by']} has changed the module since ({output.moment(since)})"
        )
    if name:
        if name not in values:
            raise NotFound(f"{path} has no output {name!r}", hint=f"it has: {', '.join(values) or 'none'}")
        if values[name]["sensitive"] and not sensitive:
            raise Invalid(f"the output {name!r} is sensitive", hint="--sensitive prints it")
        value = values[name]["value"]
        return output.as_json(value) if as_json else click.echo(value if isinstance(value, str) else output.text(value))
    if as_json:
        return output.as_json(found)
    rows = [
        (key, "(sensitive)" if each["sensitive"] and not sensitive else output.text(each["value"]))
        for key, each in values.items()
    ]
    return output.table(("NAME", "VALUE"), rows, empty=f"{path} has no outputs")


@module.command("resources")
@click.argument("path", shell_complete=name_completion.modules)
@output.json_option
@pass_target
def resources(target: Target, path: str, as_json: bool) -> None:
    """List the resources in the current state of the module PATH."""
    from terracrew.client.http import segment

    found = target.api().get(f"/modules/{segment(path)}/resources")
    if as_json:
        return output.as_json(found)
    rows = [(each,) for each in found["addresses"]]
    output.table(("RESOURCE",), rows, empty=f"{path} has no known resources")
    more = (found["count"] or 0) - len(rows)
    return output.note(f"and {more} more") if more > 0 else None


def _approval(needs_approval: bool | None, approval_timeout: int | None, interrupted: str | None) -> dict[str, Any]:
    given: dict[str, Any] = {"needs_approval": needs_approval, "approval_seconds": approval_timeout}
    found = {name: value for name, value in given.items() if value is not None}
    if interrupted is not None:
        found["interrupted"] = None if interrupted == "inherit" else interrupted
    return found | approval_options.given()


def _standing(found: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Describe the doubts and the quarantined states of a module, and what to do about them."""
    known: list[dict[str, Any]] = found.get("doubts") or []
    states: list[dict[str, Any]] = found.get("quarantined") or []
    doubts = [_doubt(each) for each in known]
    if doubts:
        doubts.append(
            "every plan waits for approval: `terracrew job show` shows what is known; then approve or decline the plan"
        )
    quarantined = [_quarantined(each) for each in states]
    if quarantined:
        decide = f"`terracrew state list {found['path']} --quarantined`, then `terracrew state adopt` or `discard`"
        quarantined.append(f"no job runs before these are decided: {decide}")
    return doubts, quarantined


def _doubt(doubt: dict[str, Any]) -> str:
    where = " · ".join(filter(None, (doubt.get("runner_path"), doubt.get("instance_name"))))
    since = output.moment(doubt.get("ended_at"))
    return f"attempt {doubt['attempt']} of job #{doubt['number']} on {where}, {since}: {doubt.get('reason') or ''}"


def _quarantined(state: dict[str, Any]) -> str:
    came = output.moment(state["created_at"])
    what = f"unreadable ({state['problem']})" if state.get("problem") else f"serial {state['serial']}"
    return f"{state['id']}, {what}, of attempt {state['attempt']} of job #{state['number']}, {came}"


def _holder(api: "Api", path: str) -> dict[str, Any] | None:
    """Return the job that holds the module's lock."""
    for status in ("PROCESSING", "CLAIMED"):
        for found in api.get("/jobs", module=path, status=status, limit=1)["items"]:
            return api.get(f"/jobs/{found['id']}")
    return None


def _ensure_group(target: Target, path: str) -> None:
    from terracrew.client.http import segment

    api = target.api()
    try:
        api.get(f"/groups/{segment(path)}")
    except NotFound:
        api.post("/groups?parents=true", {"path": path})


def _source(source: dict[str, Any]) -> str:
    below = f"//{source['subdirectory']}" if source.get("subdirectory") else ""
    if source["kind"] == "local":
        return f"{source['path']}{below}"
    return f"archive {source.get('sha256', '')[:12] or source['archive_id']}{below}"
