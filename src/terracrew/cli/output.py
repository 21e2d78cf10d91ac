"""How results are shown: JSON for programs, plain aligned columns in a pipe, coloured ones on a terminal."""

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from terracrew import plan_words

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_COLOURS = {
    "SUCCEEDED": "green",
    "ONLINE": "green",
    "FAILED": "red",
    "OFFLINE": "red",
    "CANCELED": "yellow",
    "DECLINED": "yellow",
    "DRAINING": "yellow",
    "AWAITING_APPROVAL": "yellow",
    "PROCESSING": "cyan",
    "RUNNING": "cyan",
    "CLAIMED": "cyan",
}


WIDE_COLUMNS = 130
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def as_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str) -> None:
    """Rows below their headings; where there are none, a sentence on standard error, since a pipe wants no sentence."""
    cells = [[text(value) for value in row] for row in rows]
    if not cells:
        click.echo(empty, err=True)
        return
    if not sys.stdout.isatty():
        click.echo("\n".join(aligned([columns, *cells])))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*columns, box=None, pad_edge=False, header_style="dim")
    for row in cells:
        drawn.add_row(*[Text(cell, style=_COLOURS.get(cell, "")) for cell in row])
    Console(highlight=False).print(drawn)


def is_narrow() -> bool:
    """Whether standard output is a terminal on which a column of sentences would be a few words wide."""
    return sys.stdout.isatty() and shutil.get_terminal_size().columns < WIDE_COLUMNS


def facts(pairs: Iterable[tuple[str, Any]], *, err: bool = False) -> None:
    """One thing's properties, one a line; those that it does not have are left out."""
    given = [(name, text(value)) for name, value in pairs if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in given), default=0)
    for name, value in given:
        label = click.style(name.ljust(width), dim=True)
        click.echo(f"{label}  {click.style(value, fg=_COLOURS.get(value))}", err=err)


def note(words: str) -> None:
    """A remark for a person, beside the result."""
    click.echo(click.style(words, dim=True), err=True)


def ask(question: str, refusal: str) -> None:
    """Return if the person at the terminal says yes; otherwise say what did not happen, and end with exit code 1.

    Ctrl-C and an end of the input are a no, too, and end with 130.
    """
    try:
        is_confirmed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(f"\n{refusal}", err=True)  # The question has left the cursor in the middle of its line.
        raise
    if not is_confirmed:
        click.echo(refusal, err=True)
        raise click.exceptions.Exit(1)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def text(value: Any) -> str:
    """A cell. Nothing of it can move the cursor or recolour the screen, whoever named the thing."""
    if value is None or value == "":
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(text(each) for each in value) or "—"  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return "".join(character if character.isprintable() else "�" for character in str(value))


def age(moment: str | None, now: datetime | None = None) -> str:
    """How long ago that was, or how far ahead it is, in one unit: `3m ago`, `in 2d`. `--json` has the exact time."""
    if not moment:
        return "—"
    seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(moment)).total_seconds()
    size, unit = next((each for each in _UNITS if abs(seconds) >= each[0]), _UNITS[-1])
    count = int(abs(seconds) // size)
    return f"in {count}{unit}" if seconds <= -1 else f"{count}{unit} ago"


def duration(start: str | None, end: str | None) -> str:
    if not start or not end:
        return "—"
    # The times of steps are of a runner's clock, which may have been set back meanwhile.
    seconds = max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    if seconds < 0.05:
        return "<0.1s"
    return f"{seconds:.1f}s" if seconds < 60 else f"{int(seconds // 60)}m {int(seconds % 60)}s"


def moment(when: str | None) -> str:
    """A time in a sentence, as `age` writes it; nothing where there is none."""
    return age(when) if when else ""


def lasting(since: str, now: datetime | None = None) -> str:
    """For how long something has been so: `for 3m`."""
    words = age(since, now)
    return f"for {words.removesuffix(' ago')}" if words.endswith(" ago") else "for 0s"


def left(until: str, now: datetime | None = None) -> str:
    """How much time is left until then: `6d left`."""
    words = age(until, now)
    return f"{words.removeprefix('in ')} left" if words.startswith("in ") else "the time is up"


def job_type(job: Mapping[str, Any]) -> str:
    """PLAN, APPLY or DESTROY; a plan of destroying everything is called so."""
    return "DESTROY PLAN" if job.get("is_destroy_plan") else job["type"]


def plan(summary: Mapping[str, Any]) -> str:
    """How much a plan changes, as the engine says it; how many of that are replacements and moves is said behind it."""
    if not summary:
        return ""
    more = [
        f"{summary[count]} {words}"
        for count, words in (("replace", "of them replaced"), ("moves", "moved"))
        if summary.get(count)
    ]
    return plan_words.counts(summary) + (f" ({', '.join(more)})" if more else "")
