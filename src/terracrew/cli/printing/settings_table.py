"""Prints effective settings with the layers that they came from, and which variables of this shell engines would get."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.printing import output

if TYPE_CHECKING:
    from terracrew.settings.effective import Setting
    from terracrew.settings.merging import Merged
import os
from collections.abc import Collection


def show_effective(merged: "Merged[Any]") -> output.CommandResult:
    """Return merged settings as the result of a command, each with the layer that it came from."""
    from terracrew.settings.effective import effective

    found = effective(merged)
    return output.CommandResult(found, lambda: _show(found))


def _show(settings: "Sequence[Setting]") -> None:
    """Print one row for each setting. On a narrow terminal, the layer is below the value, so that nothing is cut off."""
    if output.is_narrow():
        for each in settings:
            _show_stacked(each)
        return
    rows: list[tuple[str, str, str]] = []
    for each in settings:
        rows.append((each.name, _text(each.value), each.origin))
        rows += [("  overrides", _text(other.value), other.origin) for other in each.overrides]
    output.table(("SETTING", "VALUE", "FROM"), rows, empty="there are no settings")


def _show_stacked(setting: "Setting") -> None:
    click.echo(f"{click.style(setting.name, dim=True)}  {_text(setting.value)}")
    if setting.origin != "default":
        click.echo(f"  from {setting.origin}")
    for other in setting.overrides:
        click.echo(f"  overrides {_text(other.value)} from {other.origin}")


def _text(value: Any) -> str:
    """Return a value as a settings file has it."""
    match value:
        case None | "" | [] | {}:
            return "-"
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case _:
            return output.text(value)


def show_beside_server(patterns: Collection[str], secret_variables: Collection[str]) -> output.CommandResult:
    """Return the variables for engines of built-in runners, which get further ones by patterns and none with secrets of the server."""
    from terracrew.runner import environment

    given = environment.for_engines(os.environ, is_built_in=True, patterns=patterns)
    return _listing(given.keys() - set(secret_variables))


def show_of_runner() -> output.CommandResult:
    """Return the variables for engines of a runner that starts engines on its own machine."""
    from terracrew.runner import environment

    return _listing(environment.for_engines(os.environ, is_built_in=False))


def _listing(given: Collection[str]) -> output.CommandResult:
    withheld = sorted(name for name in os.environ if name not in given)
    rows = [(name, "yes") for name in sorted(given)] + [(name, "no") for name in withheld]
    value = {"given": sorted(given), "withheld": withheld}
    return output.listing(value, ("VARIABLE", "ENGINES GET IT"), rows, empty="this shell has no environment variables")
