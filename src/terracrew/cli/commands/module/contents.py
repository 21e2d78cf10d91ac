"""`terracrew module state`, `outputs`, `resources` and `dependencies`: what jobs have left, and who uses it."""

from typing import Any

import click
import msgspec

from terracrew.cli.arguments import name_completion, references
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output, streams
from terracrew.client.address import segment
from terracrew.errors import Invalid, NotFound


@click.command("state")
@click.argument("path", shell_complete=name_completion.modules)
@click.option("--versions", is_flag=True, help="List all versions instead.")
@click.option("--version", "version_id", metavar="N", help="Print this version (or id) instead of the current one.")
@output.json_option
@pass_target
def state(target: Target, path: str, versions: bool, version_id: str | None) -> output.CommandResult | None:
    """Print the current state of the module PATH as its engine wrote it."""
    api = target.api()
    if not versions:
        found = references.state(api, version_id, path) if version_id else ""
        place = f"/states/{segment(found)}" if found else f"/modules/{segment(path)}/state"
        with streams.document_output() as stream:
            api.download(place, stream)
        return None
    items = list(api.list(f"/modules/{segment(path)}/states"))
    rows = [(i["version"] or i["id"], i["status"], i["serial"], i["size"], output.age(i["created_at"])) for i in items]
    return output.listing(
        items, ("STATE", "STATUS", "SERIAL", "BYTES", "ARRIVED"), rows, empty=f"{path} has no state yet"
    )


@click.command("outputs")
@click.argument("path", shell_complete=name_completion.modules)
@click.argument("name", required=False)
@click.option("--sensitive", is_flag=True, help="Also show sensitive values. This is recorded in the audit log.")
@output.json_option
@pass_target
def outputs(target: Target, path: str, name: str | None, sensitive: bool) -> output.CommandResult:
    """Print the outputs of the module PATH, or the one called NAME."""
    found = target.api().get(f"/modules/{segment(path)}/outputs", sensitive=sensitive or None)
    if since := found.get("outdated_since"):
        origin = f"are from {found['job_id']}" if found.get("job_id") else "are of unknown origin"
        output.note(
            f"these outputs {origin}; job {found['outdated_by']} has changed the module since ({output.moment(since)})"
        )
    return show_outputs(found, path, name, sensitive=sensitive)


@click.command("resources")
@click.argument("path", shell_complete=name_completion.modules)
@output.json_option
@pass_target
def resources(target: Target, path: str) -> output.CommandResult:
    """List the resources in the current state of the module PATH."""
    found = target.api().get(f"/modules/{segment(path)}/resources")
    rows = [(each,) for each in found["addresses"]]
    more = (found["count"] or 0) - len(rows)
    notes = [f"and {more} more"] if more > 0 else []
    return output.listing(found, ("RESOURCE",), rows, empty=f"{path} has no known resources", notes=notes)


@click.command("dependencies")
@click.argument("path", shell_complete=name_completion.modules)
@output.json_option
@pass_target
def dependencies(target: Target, path: str) -> output.CommandResult:
    """List the outputs of other modules that the module PATH uses, and the modules that use its outputs."""
    api = target.api()
    place = f"/modules/{segment(path)}/dependencies"
    found = {direction: list(api.list(place, direction=direction)) for direction in ("needs", "used_by")}

    def show() -> None:
        rows = [("needs", *_row(each), _status(each)) for each in found["needs"]]
        rows += [("used by", *_row(each), _follows(each)) for each in found["used_by"]]
        empty = f"no dependencies: `terracrew input set {path} NAME --output MODULE:OUTPUT` makes one"
        output.table(("", "ID", "MODULE", "OUTPUT", "INPUT", "SET BY", ""), rows, empty=empty)

    return output.CommandResult(found, show)


@click.command("end-use")
@click.argument("path", shell_complete=name_completion.modules)
@click.argument("dependency")
@output.json_option
@pass_target
def end_use(target: Target, path: str, dependency: str) -> output.CommandResult:
    """End the use of an output of the module PATH by another one. DEPENDENCY is its id in `module dependencies`.

    Jobs of the other module wait from then on, until somebody who may read the state of PATH sets the input again.
    """
    target.api().delete(f"/modules/{segment(path)}/dependencies/{segment(dependency)}")
    return output.message(
        {"ended": dependency}, f"ended {dependency}: the other module does not get this output of {path} any more"
    )


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    return each["id"], _module(each), each["output"], _input(each), each["set_by_name"]


def _module(each: dict[str, Any]) -> str:
    return each["path"] or ("a deleted module" if each["is_deleted"] else "a module that you may not see")


def _input(each: dict[str, Any]) -> str:
    return ("$" if each["target"] == "environment" else "") + each["name"]


def _follows(each: dict[str, Any]) -> str:
    return _ended(each) or ("applied by itself" if each["triggers"] == "auto" else "")


def _status(each: dict[str, Any]) -> str:
    if each.get("is_outdated"):
        return _ended(each) or "its outputs are those of an older job: jobs wait until it is applied again"
    return _ended(each) or ("has no outputs yet: jobs wait" if each["is_waited_for"] else "")


def _ended(each: dict[str, Any]) -> str:
    if each.get("ended_by_name"):
        return f"ended by {each['ended_by_name']}: jobs wait"
    return f"{each['set_by_name']} may not read the state any more: jobs wait" if each.get("is_ended") else ""


def show_outputs(found: dict[str, Any], owner: str, name: str | None, *, sensitive: bool) -> output.CommandResult:
    """Return what the API has answered as the result of a command. The checksum is a note, so that the rest can be piped."""
    values: dict[str, Any] = found["outputs"]
    if name:
        return _show_one(values, owner, name, sensitive=sensitive)
    rows = [
        (key, "(sensitive)" if each["sensitive"] and not sensitive else _cell(each["value"]))
        for key, each in values.items()
    ]

    def show() -> None:
        output.table(("NAME", "VALUE"), rows, empty=f"{owner} has no outputs")
        if found.get("checksum"):
            output.note(f"checksum {found['checksum']}, read by {found['job_id']}")

    return output.CommandResult(found, show)


def _show_one(values: dict[str, Any], owner: str, name: str, *, sensitive: bool) -> output.CommandResult:
    if name not in values:
        raise NotFound(f"{owner} has no output {name!r}", hint=f"it has: {', '.join(values) or 'none'}")
    if values[name]["sensitive"] and not sensitive:
        raise Invalid(f"the output {name!r} is sensitive", hint="--sensitive prints it")
    value = values[name]["value"]
    return output.message(value, value if isinstance(value, str) else output.text(value))


def _cell(value: Any) -> str:
    """Return a value as a cell of the table. A text of several lines is one in JSON, as engines print it, so that its lines can be told."""
    is_broken = isinstance(value, str) and "\n" in value
    return output.text(msgspec.json.encode(value).decode() if is_broken else value)
