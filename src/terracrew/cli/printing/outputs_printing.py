"""Prints outputs, of a module or of one of its jobs: all of them as a table, or one of them alone."""

from typing import Any

import click
import msgspec

from terracrew.cli.printing import output
from terracrew.errors import Invalid, NotFound


def show(found: dict[str, Any], owner: str, name: str | None, *, sensitive: bool, as_json: bool) -> None:
    """Print what the API has answered. The checksum is a note, so that what is printed can be piped."""
    values: dict[str, Any] = found["outputs"]
    if name:
        return _show_one(values, owner, name, sensitive=sensitive, as_json=as_json)
    if as_json:
        return output.as_json(found)
    rows = [
        (key, "(sensitive)" if each["sensitive"] and not sensitive else _cell(each["value"]))
        for key, each in values.items()
    ]
    output.table(("NAME", "VALUE"), rows, empty=f"{owner} has no outputs")
    return output.note(f"checksum {found['checksum']}, read by {found['job_id']}") if found.get("checksum") else None


def _show_one(values: dict[str, Any], owner: str, name: str, *, sensitive: bool, as_json: bool) -> None:
    if name not in values:
        raise NotFound(f"{owner} has no output {name!r}", hint=f"it has: {', '.join(values) or 'none'}")
    if values[name]["sensitive"] and not sensitive:
        raise Invalid(f"the output {name!r} is sensitive", hint="--sensitive prints it")
    value = values[name]["value"]
    return output.as_json(value) if as_json else click.echo(value if isinstance(value, str) else output.text(value))


def _cell(value: Any) -> str:
    """Return a value as a cell of the table. A text of several lines is one in JSON, as engines print it, so that its lines can be told."""
    is_broken = isinstance(value, str) and "\n" in value
    return output.text(msgspec.json.encode(value).decode() if is_broken else value)
