"""Prints the result of a command: JSON for programs, plain aligned columns in a pipe, coloured ones on a terminal."""

import functools
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import msgspec

from terracrew.cli.connection.target import pass_target
from terracrew.errors import TerracrewError
from terracrew.protocol.events import PlanSummary
from terracrew.wording import plan_words

if TYPE_CHECKING:
    from terracrew.api.jobs import Job

wide_option = click.option("--wide", is_flag=True, help="Print all columns, on lines that may be long.")

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
    "WAKING": "cyan",
}


WIDE_COLUMNS = 130
MAX_NAMED = 10
"""A question names this many of the things that it is about, and counts the others."""
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def examples(*lines: str) -> str:
    """Return the end of a command's help: lines that people can type as they are."""
    return "\n".join(("\b", "Examples:", *(f"  {each}" for each in lines)))


def print_json(value: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


@dataclass(frozen=True)
class CommandResult:
    """What a command returns: the value that `--json` prints, what people see instead, and the exit code."""

    value: Any
    show: Callable[[], object]
    exit_code: int = 0


def message(value: Any, text: str, *notes: str, before: str = "") -> CommandResult:
    """Return a result that is shown as one line. Remarks go to standard error, `before` it and after it."""

    def show() -> None:
        if before:
            note(before)
        if text:
            click.echo(text)
        for each in notes:
            note(each)

    return CommandResult(value, show)


def listing(
    value: Any,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    empty: str,
    wide: bool = False,
    notes: Sequence[str] = (),
) -> CommandResult:
    """Return a result that is shown as a table, with remarks below it on standard error."""

    def show() -> None:
        table(columns, rows, empty=empty, wide=wide)
        for each in notes:
            note(each)

    return CommandResult(value, show)


def details(value: Any, pairs: Iterable[tuple[str, Any]]) -> CommandResult:
    """Return a result that is shown as the properties of one thing."""
    return CommandResult(value, lambda: facts(pairs))


def json_option(command: Callable[..., CommandResult | int | None]) -> Callable[..., int]:
    """Add --json to a command, and print the result that it returns. A command that prints by itself returns its exit code."""

    @functools.wraps(command)
    def run(*args: Any, as_json: bool, **given: Any) -> int:
        result = command(*args, **given)
        if not isinstance(result, CommandResult):
            return result or 0
        if as_json:
            print_json(result.value)
        else:
            result.show()
        return result.exit_code

    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(run)


def with_target(command: Callable[..., CommandResult | int | None]) -> Callable[..., int]:
    """Pass the target of the call to a command, add --json to it, and print the result that it returns."""
    return json_option(pass_target(command))


def wants_json() -> bool:
    """Return whether the command that runs was called with --json. It then prints no progress."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.params.get("as_json"))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, empty: str, wide: bool = False) -> None:
    """Print rows below their headings. If there are none, print a sentence to standard error, to keep pipes clean.

    A terminal breaks long cells within their column; with `wide`, each row stays one line.
    """
    cells = [[text(value) for value in row] for row in rows]
    if not cells:
        click.echo(empty, err=True)
        return
    if wide or not sys.stdout.isatty():
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
    """Return whether standard output is a terminal that is too narrow for a column of sentences."""
    return sys.stdout.isatty() and shutil.get_terminal_size().columns < WIDE_COLUMNS


def facts(pairs: Iterable[tuple[str, Any]], *, err: bool = False) -> None:
    """Print the properties of one thing, one on each line, without the empty ones."""
    given = [(name, text(value)) for name, value in pairs if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in given), default=0)
    for name, value in given:
        label = click.style(name.ljust(width), dim=True)
        click.echo(f"{label}  {click.style(value, fg=_COLOURS.get(value))}", err=err)


def note(words: str) -> None:
    """Print a remark for a person to standard error."""
    click.echo(click.style(broken(words), dim=True), err=True)


def broken(words: str, indent: int = 0) -> str:
    """Break long lines between words if standard error is a terminal. A line with a command stays whole, to be copied.

    `indent` is the width of what is before the first line.
    """
    if not sys.stderr.isatty():
        return words
    first, *others = words.split("\n")
    return "\n".join([_filled(first, indent)[indent:], *(_filled(line, 0) for line in others)])


def _filled(line: str, indent: int) -> str:
    before = " " * indent
    if "`" in line or "terracrew " in line:
        return before + line
    hanging = " " * (len(line) - len(line.lstrip()) + 2) if line.startswith(" ") else ""
    width = shutil.get_terminal_size().columns - 1
    return textwrap.fill(
        line, width, initial_indent=before, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
    )


def ask(question: str, refusal: str) -> None:
    """Return if the person at the terminal says yes; otherwise print the refusal and exit with code 1.

    Ctrl-C and the end of the input also mean no, and exit with 130.
    """
    try:
        is_confirmed = click.confirm(question, err=True)
    except click.Abort:
        click.echo(f"\n{refusal}", err=True)  # The question has left the cursor in the middle of its line.
        raise
    if not is_confirmed:
        click.echo(refusal, err=True)
        raise click.exceptions.Exit(1)


def name_some(names: Sequence[str], count: int) -> None:
    """Print the first names of what a question is about, and how many more there are of these `count`, to standard error."""
    for each in names[:MAX_NAMED]:
        click.echo(f"  - {text(each)}", err=True)
    if count > MAX_NAMED:
        click.echo(f"  … and {count - MAX_NAMED} more", err=True)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def text(value: Any) -> str:
    """Return a value as the text of a cell, without control characters that could move the cursor or change colours."""
    if value is None or value == "":
        return "—"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(text(each) for each in value) or "—"  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return "".join(character if character.isprintable() else "�" for character in str(value))


def age(moment: datetime | None, now: datetime | None = None) -> str:
    """Return how long ago a time was, or how far ahead it is, in one unit: `3m ago`, `in 2d`."""
    if not moment:
        return "—"
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    size, unit = next((each for each in _UNITS if abs(seconds) >= each[0]), _UNITS[-1])
    count = int(abs(seconds) // size)
    return f"in {count}{unit}" if seconds <= -1 else f"{count}{unit} ago"


def duration(start: datetime | None, end: datetime | None) -> str:
    if not start or not end:
        return "—"
    # The times of steps come from a runner's clock, which may have been set back in between.
    seconds = max(0.0, (end - start).total_seconds())
    if seconds < 0.05:
        return "<0.1s"
    return f"{seconds:.1f}s" if seconds < 60 else f"{int(seconds // 60)}m {int(seconds % 60)}s"


def moment(when: datetime | None) -> str:
    """Return a time as `age` writes it, or an empty string if there is none."""
    return age(when) if when else ""


def lasting(since: datetime, now: datetime | None = None) -> str:
    """Return for how long something has lasted: `for 3m`."""
    words = age(since, now)
    return f"for {words.removesuffix(' ago')}" if words.endswith(" ago") else "for 0s"


def left(until: datetime, now: datetime | None = None, *, since: datetime | None = None) -> str:
    """Return how much time is left: `6d left`. It is never more than the whole time since `since`: the clocks may differ."""
    now = now or datetime.now(UTC)
    words = age(until, max(now, since) if since else now)
    return f"{words.removeprefix('in ')} left" if words.startswith("in ") else "the time is up"


def job_type(job: "Job") -> str:
    """Return PLAN, APPLY, DESTROY, or what kind of one it is: DESTROY PLAN, REFRESH-ONLY PLAN or REFRESH-ONLY APPLY."""
    if job.is_refresh_only:
        return f"REFRESH-ONLY {job.type}"
    return "DESTROY PLAN" if job.is_destroy_plan else job.type


def plan(summary: PlanSummary | None) -> str:
    """Return the engine's counts of a plan, followed by how many of them are replacements and moves."""
    if summary is None:
        return ""
    more = [f"{summary.replace} of them replaced"] if summary.replace else []
    more += [f"{summary.moves} moved"] if summary.moves else []
    return plan_words.counts(summary) + (f" ({', '.join(more)})" if more else "")


_LISTS = {
    "module": "terracrew module list",
    "group": "terracrew group list",
    "runner": "terracrew runner list",
    "job": "terracrew job list",
    "organization": "terracrew organization list",
    "user": "terracrew user list",
    "cloud identity": "terracrew cloud-identity list",
    "service account": "terracrew service-account list",
    "token": "terracrew token list",
}
_MISSING = re.compile(rf"there is no ({'|'.join(_LISTS)})\b(?! and)")
_NOT_AN_ID = re.compile(r"is not an id: expected `(\w+)_`")
_OF_IDS = {
    "job": "`terracrew job list` shows the number of each job, which is enough",
    "sec": "`terracrew service-account secrets ACCOUNT` lists the ids of secrets",
    "sta": "`terracrew state list MODULE` lists the states of a module",
    "ses": "`terracrew user sessions NAME` lists the ids of sessions",
}


def hint_of(error: TerracrewError) -> str | None:
    """Return the hint of an error, or one that follows from what it says."""
    if hint := error.details.get("hint"):
        return str(hint)
    if (found := _MISSING.search(error.message)) is not None:
        return f"`{_LISTS[found[1]]}` lists those that you may see"
    if (found := _NOT_AN_ID.search(error.message)) is not None:
        return _OF_IDS.get(found[1])
    return None
