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
def dependencies(target: Target, path: str, as_json: bool) -> None:
    """List the outputs of other modules that the module PATH uses, and the modules that use its outputs."""
    from terracrew.client.http import segment

    api = target.api()
    place = f"/modules/{segment(path)}/dependencies"
    found = {direction: list(api.list(place, direction=direction)) for direction in ("needs", "used_by")}
    if as_json:
        return output.as_json(found)
    rows = [("needs", _module(each), each["output"], _input(each), _status(each)) for each in found["needs"]]
    rows += [("used by", _module(each), each["output"], _input(each), _follows(each)) for each in found["used_by"]]
    empty = f"no dependencies: `terracrew input set {path} NAME --output MODULE:OUTPUT` makes one"
    return output.table(("", "MODULE", "OUTPUT", "INPUT", ""), rows, empty=empty)


def _module(each: dict[str, Any]) -> str:
    return each["path"] or ("a deleted module" if each["is_deleted"] else "a module that you may not see")


def _input(each: dict[str, Any]) -> str:
    return ("$" if each["target"] == "environment" else "") + each["name"]


def _follows(each: dict[str, Any]) -> str:
    return "applied by itself" if each["triggers"] == "auto" else ""


def _status(each: dict[str, Any]) -> str:
    return "has no outputs yet: jobs wait" if each["is_waited_for"] else ""
