"""Prints outputs, of a module or of one of its jobs: all of them as a table, or one of them alone."""

from typing import Any

import msgspec

from terracrew.cli.printing import output
from terracrew.errors import Invalid, NotFound


def show(found: dict[str, Any], owner: str, name: str | None, *, sensitive: bool) -> output.Result:
    """Return what the API has answered as the result of a command. The checksum is a note, so that the rest can be piped."""
    values: dict[str, Any] = found["outputs"]
    if name:
        return _show_one(values, owner, name, sensitive=sensitive)
    rows = [
        (key, "(sensitive)" if each["sensitive"] and not sensitive else _cell(each["value"]))
        for key, each in values.items()
    ]

    def show() -> None:
        output.table(("NAME", "VALUE"), rows, empty=f"{owner} has no outputs")
        if found.get("checksum"):
            output.note(f"checksum {found['checksum']}, read by {found['job_id']}")

    return output.Result(found, show)


def _show_one(values: dict[str, Any], owner: str, name: str, *, sensitive: bool) -> output.Result:
    if name not in values:
        raise NotFound(f"{owner} has no output {name!r}", hint=f"it has: {', '.join(values) or 'none'}")
    if values[name]["sensitive"] and not sensitive:
        raise Invalid(f"the output {name!r} is sensitive", hint="--sensitive prints it")
    value = values[name]["value"]
    return output.message(value, value if isinstance(value, str) else output.text(value))


def _cell(value: Any) -> str:
    """Return a value as a cell of the table. A text of several lines is one in JSON, as engines print it, so that its lines can be told."""
    is_broken = isinstance(value, str) and "\n" in value
    return output.text(msgspec.json.encode(value).decode() if is_broken else value)
