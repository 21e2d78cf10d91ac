"""Options that are made from the fields of requests."""

import click
import msgspec
import pytest
from click.testing import CliRunner

from terracrew.api import fields
from terracrew.api.groups import GroupChange
from terracrew.api.modules import ModuleChange
from terracrew.api.runners import RunnerChange
from terracrew.cli.commands import group
from terracrew.cli.commands.module import edit
from terracrew.cli.commands.runner import update
from terracrew.cli.connection.target import Target

LEFT_OUT = {"--service-account"}
"""`service-account assign` sets it."""


@pytest.mark.feature("E1.commands")
@pytest.mark.parametrize(
    ("kind", "command"),
    [
        (ModuleChange, edit.create),
        (ModuleChange, edit.update),
        (GroupChange, group.update),
        (RunnerChange, update.update),
    ],
)
def test_every_field_with_an_option_can_be_set_on_the_command_line(
    kind: type[msgspec.Struct], command: click.Command
) -> None:
    names = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    described = fields.describe(kind).values()
    simple = [each for each in described if each.words != fields.Field() and each.shape not in ("other", "struct")]
    assert simple
    options = {each.option.partition("/")[0] for each in simple if each.option is not None}
    assert options - names - LEFT_OUT == set()


@pytest.mark.parametrize(
    ("option", "text", "expected"),
    [
        ("--approval-timeout", "5s", "5s is out of bounds: at least 1m, at most 365d"),
        ("--approval-timeout", "400d", "400d is out of bounds: at least 1m, at most 365d"),
    ],
)
def test_a_value_out_of_bounds_is_refused_in_its_own_unit(option: str, text: str, expected: str) -> None:
    """It was "Expected `int` >= 60 - at `$.approval_seconds`"."""
    refused = CliRunner().invoke(edit.update, ["platform/network", option, text], obj=Target())
    assert refused.exit_code == 2
    assert expected in refused.stderr
