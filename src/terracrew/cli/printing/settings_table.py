"""Prints effective settings with the layers that they came from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from terracrew.cli.printing import output

if TYPE_CHECKING:
    from terracrew.settings.effective import Setting
    from terracrew.settings.merging import Merged


def show_effective(merged: "Merged[Any]") -> output.Result:
    """Return merged settings as the result of a command, each with the layer that it came from."""
    from terracrew.settings.effective import effective

    found = effective(merged)
    return output.Result(found, lambda: _show(found))


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
