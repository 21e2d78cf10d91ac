"""How errors, notes and lists of commands read at a terminal of 80 columns."""

import re
import sys

import click
import pytest

from terracrew.cli.main import cli
from terracrew.cli.printing import output
from terracrew.errors import Invalid, NotFound
from tests.cli.conftest import Terracrew


@pytest.fixture
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)


@pytest.mark.feature("E1.commands")
@pytest.mark.usefixtures("_terminal")
def test_long_lines_are_broken_between_words_and_commands_stay_whole() -> None:
    words = "this is a long sentence " * 6
    lines = output.broken(words.strip(), indent=7).splitlines()
    assert len(lines) == 2
    assert len(lines[0]) + 7 < 80
    assert " ".join(lines) == words.strip()
    command = f"`terracrew {'x ' * 50}`"
    assert output.broken(command) == command
    problem = f"the settings have errors:\n  port (option --port): {words}"
    assert output.broken(problem).splitlines()[2].startswith("    ")


@pytest.mark.feature("E1.commands")
@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ("there is no module `x` here, or you may not see it", "`terracrew module list` lists those that you may see"),
        ("there is no job number 9", "`terracrew job list` lists those that you may see"),
        ("there is no service account 'x', or you may not see it", "`terracrew service-account list` lists"),
        ("there is no user and no service account 'x' here", None),
        ("'x' is not an id: expected `job_` and a UUID", "`terracrew job list` shows the number of each job"),
        ("the server is away", None),
    ],
)
def test_what_was_not_found_has_a_command_that_lists_it(message: str, hint: str | None) -> None:
    found = output.hint_of(NotFound(message))
    assert (found is None) if hint is None else (found or "").startswith(hint)
    assert output.hint_of(Invalid(message, hint="mine")) == "mine"


def _groups(command: click.Command, context: click.Context) -> list[tuple[click.Group, click.Context]]:
    if not isinstance(command, click.Group):
        return []
    below = [command.get_command(context, name) for name in command.list_commands(context)]
    found = [(command, context)]
    for each in below:
        assert each is not None
        found += _groups(each, click.Context(each, parent=context, info_name=each.name, terminal_width=80))
    return found


@pytest.mark.feature("E1.commands")
def test_a_list_of_commands_cuts_no_sentence_off_and_fits_80_columns() -> None:
    groups = _groups(cli, click.Context(cli, info_name="terracrew", terminal_width=80))
    assert len(groups) > 10
    for group, context in groups:
        listed = group.get_help(context).partition("Commands:")[2].splitlines()
        assert not [line for line in listed if line.endswith("...") or len(line) > 80], group.name


@pytest.mark.feature("E1.commands")
def test_bounds_of_numbers_are_in_words(terracrew: Terracrew) -> None:
    terracrew("job", "run", "m", "--priority", "200")
    assert "200 is not in the range -100 to 100\n" in terracrew.err
    terracrew("runner", "configure", "r", "--log-period", "0")
    assert "more than 0, at most 3600" in terracrew.err
    assert "1e+" not in terracrew("group", "create", "--help")
    assert "--limit N" in terracrew("job", "list", "--help")


@pytest.mark.feature("E1.commands")
def test_no_help_speaks_of_null_which_nobody_can_type() -> None:
    """`--max-destroy` said "null adds no limit", where the word to type is `inherit`."""
    found = [
        (context.command_path, name)
        for group, context in _groups(cli, click.Context(cli, info_name="terracrew"))
        for name in group.list_commands(context)
        if (each := group.get_command(context, name)) is not None
        for words in (each.help, *(each.help for each in each.params if isinstance(each, click.Option)))
        if re.search(r"\bnull\b", words or "", re.IGNORECASE)
    ]
    assert found == []
