"""`terracrew module dependencies`: what a module needs of other modules, and which modules use its outputs."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command("dependencies")
@click.argument("path", shell_complete=name_completion.modules)
@output.json_option
@pass_target
def dependencies(target: Target, path: str) -> output.Result:
    """List the outputs of other modules that the module PATH uses, and the modules that use its outputs."""
    from terracrew.client.http import segment

    api = target.api()
    place = f"/modules/{segment(path)}/dependencies"
    found = {direction: list(api.list(place, direction=direction)) for direction in ("needs", "used_by")}

    def show() -> None:
        rows = [("needs", *_row(each), _status(each)) for each in found["needs"]]
        rows += [("used by", *_row(each), _follows(each)) for each in found["used_by"]]
        empty = f"no dependencies: `terracrew input set {path} NAME --output MODULE:OUTPUT` makes one"
        output.table(("", "ID", "MODULE", "OUTPUT", "INPUT", "SET BY", ""), rows, empty=empty)

    return output.Result(found, show)


@click.command("end-use")
@click.argument("path", shell_complete=name_completion.modules)
@click.argument("dependency")
@output.json_option
@pass_target
def end_use(target: Target, path: str, dependency: str) -> output.Result:
    """End the use of an output of the module PATH by another one. DEPENDENCY is its id in `module dependencies`.

    Jobs of the other module wait from then on, until somebody who may read the state of PATH sets the input again.
    """
    from terracrew.client.http import segment

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
