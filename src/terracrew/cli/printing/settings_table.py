"""Prints effective settings with the layers that they came from."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from terracrew.cli.printing import output

if TYPE_CHECKING:
    from terracrew.settings.effective import Setting


def show(settings: "Sequence[Setting]") -> None:
    rows: list[tuple[str, str, str]] = []
    for each in settings:
        rows.append((each.name, _text(each.value), each.origin))
        rows += [("  overrides", _text(other.value), other.origin) for other in each.overrides]
    output.table(("SETTING", "VALUE", "FROM"), rows, empty="there are no settings")


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
