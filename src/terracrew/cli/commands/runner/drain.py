"""`terracrew runner drain` and `undrain`."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output


@click.command("drain")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def drain(target: Target, path: str, as_json: bool) -> None:
    """Drain the runner PATH: it finishes its jobs and gets no new ones."""
    _drain(target, path, True, as_json)


@click.command("undrain")
@click.argument("path", shell_complete=name_completion.runners)
@output.json_option
@pass_target
def undrain(target: Target, path: str, as_json: bool) -> None:
    """End the drain of the runner PATH: it gets jobs again."""
    _drain(target, path, False, as_json)


def _drain(target: Target, path: str, on: bool, as_json: bool) -> None:
    found: Any = target.api().post(f"{api_path(path)}/drain", {"on": on})
    if as_json:
        return output.as_json(found)
    return click.echo(
        f"Draining {path}: it finishes its jobs and takes no new ones" if on else f"{path} takes jobs again"
    )
