"""Every command of the command line, found by walking its tree: help, JSON and the completion of names."""

import click
import pytest

from tests.cli.every_command import COMMANDS

WITHOUT_JSON = {
    "up": "runs until it is stopped",
    "demo": "runs until it is stopped",
    "runner start": "runs until it is stopped",
    "completion": "prints a script",
    "runner schema": "prints JSON in any case",
    "server schema": "prints JSON in any case",
    "state show": "prints JSON in any case",
    "state pull": "prints JSON in any case",
    "api": "prints the answer of the API, which is JSON",
    "audit export": "prints JSON lines; --format chooses CSV instead",
}
"""The commands that have no option --json, each with the reason."""
NAMES = {"account", "group", "job_id", "module", "organization", "path", "place", "principal", "runner", "user"}
"""Parameters with these names stand for something that exists on the server."""
NEW = {"group create path", "module create path", "api path"}
"""These stand for something that does not exist yet, or for no name at all."""


@pytest.mark.feature("E1.json")
def test_every_command_prints_json_for_programs() -> None:
    without = {name for name, each in COMMANDS.items() if not any("--json" in found.opts for found in each.params)}
    assert without == WITHOUT_JSON.keys()


@pytest.mark.feature("E1.completion")
def test_every_name_of_something_that_exists_is_completed() -> None:
    missing = [
        f"{name} {found.name}"
        for name, each in COMMANDS.items()
        for found in each.params
        if found.name in NAMES and found._custom_shell_complete is None
    ]
    assert set(missing) - NEW == set()


@pytest.mark.feature("E1.commands")
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_every_option_is_explained_within_80_columns(name: str) -> None:
    command = COMMANDS[name]
    text = command.get_help(click.Context(command, info_name=f"terracrew {name}", terminal_width=80))
    assert (command.help or "").strip().endswith((".", ":")), "a sentence says what it does"
    unexplained = [each.opts for each in command.params if isinstance(each, click.Option) and not each.help]
    assert unexplained == []
    assert [line for line in text.splitlines() if len(line) > 80] == []
