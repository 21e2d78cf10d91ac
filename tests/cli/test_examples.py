"""The examples at the end of the helps: the commands that people use most have some, and each can be typed as it stands."""

from collections.abc import Iterator

import click
import pytest

from terracrew.cli.main import cli
from tests import command_lines

TERMINAL_COLUMNS = 80
MOST_USED = {
    "login",
    "adopt",
    "module create",
    "module update",
    "job run",
    "job apply",
    "job list",
    "job show",
    "job logs",
    "job approve",
    "job decline",
    "input set",
    "group create",
    "group update",
    "group plan",
    "group apply",
    "state import",
    "state rollback",
    "step set",
    "runner register",
    "runner start",
    "runner assign",
    "token create",
    "user create",
    "role grant",
    "service-account create",
    "service-account trust add",
    "audit list",
    "cloud-identity create",
    "cloud-identity policies",
    "cloud-identity test",
}


def commands(command: click.Command, context: click.Context, path: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield the path of each command and its help on a terminal."""
    yield " ".join(path), command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            below = click.Context(inner, parent=context, info_name=name, terminal_width=TERMINAL_COLUMNS)
            yield from commands(inner, below, (*path, name))


@pytest.mark.feature("E1.commands")
def test_the_most_used_commands_have_examples_that_can_be_typed() -> None:
    """Five of 145 commands had an example."""
    root = click.Context(cli, info_name="terracrew", terminal_width=TERMINAL_COLUMNS)
    examples = {path: text.partition("\n  Examples:\n")[2] for path, text in commands(cli, root)}
    assert {path for path in MOST_USED if not examples[path]} == set()
    for path, text in examples.items():
        found = list(command_lines.typed(text))
        assert not text or any(set(path.split()) <= set(words) for words in found), f"no example of {path} is about it"
        assert [(words, fault) for words in found if (fault := command_lines.fault(words, is_whole=True))] == []
        assert [line for line in text.splitlines() if len(line) > TERMINAL_COLUMNS] == [], path
