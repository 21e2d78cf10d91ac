"""`terracrew audit`: who changed what."""

import sys
from collections.abc import Callable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO

import click
import msgspec

from terracrew.api.access import Me
from terracrew.api.audit import Entry
from terracrew.api.groups import Organization
from terracrew.cli.arguments import name_completion, options
from terracrew.cli.arguments.values import Moment
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output
from terracrew.wording import audit_words

if TYPE_CHECKING:
    from terracrew.client.http import Api

_filters = options.combine(
    click.option("--actor", metavar="WHO", shell_complete=name_completion.users, help="Only changes by WHO."),
    click.option("--action", metavar="ACTION", help="Only this action (`job.approve`), or all of a kind (`job`)."),
    click.option("--target", metavar="ID", help="Only changes to the object with this id."),
    click.option(
        "--path",
        metavar="PATH",
        shell_complete=name_completion.places,
        help="Only changes to this group and what is below it, or to this module.",
    ),
    click.option("--since", type=Moment(), metavar="WHEN", help="Only from then on: 7d, 2026-11-16, 2026-11-16T08:30."),
    click.option("--until", type=Moment(), metavar="WHEN", help="Only before that time."),
    click.option("--search", "text", metavar="TEXT", help="Only changes with TEXT in their names or details."),
)
"""Choose entries."""
_Cell = Callable[[Entry], object]
_COLUMNS: dict[str, _Cell] = {
    "WHEN": lambda entry: output.age(entry.created_at),
    "WHO": lambda entry: entry.actor_name,
    "WHAT": lambda entry: audit_words.sentence(msgspec.to_builtins(entry)),
}
_WIDE_COLUMNS: dict[str, _Cell] = {
    "TIME": lambda entry: msgspec.to_builtins(entry.created_at),
    "ADDRESS": lambda entry: entry.address,
    "ACTION": lambda entry: entry.action,
    "ID": lambda entry: entry.target_id,
}
PROGRESS_BYTES = 1 << 20


@click.group(cls=LazyGroup)
def audit() -> None:
    """Show who changed what, and when."""


@audit.command(
    "list",
    epilog=output.examples(
        "terracrew audit list --actor ada --since 7d",
        "terracrew audit list --action job.approve --path platform/prod --wide",
    ),
)
@_filters
@options.limit(10_000, 50, "The number of changes to list.")
@output.wide_option
@output.with_target
def list_entries(target_server: Target, limit: int, wide: bool, **filters: str | None) -> output.CommandResult:
    """List the changes, newest first.

    --wide also shows the exact time, the address that the change came from, the name of the action (for --action) and
    the id of what was changed (for --target).
    """
    api = target_server.api()
    items = list(islice(api.list("/audit", Entry, **filters), limit))

    def show() -> None:
        empty = "nothing that matches has been changed" if any(filters.values()) else "nothing has been changed yet"
        columns = _COLUMNS | (_WIDE_COLUMNS if wide else {})
        if items and (names := _organizations(target_server, api, filters)):
            first: dict[str, _Cell] = {"ORGANIZATION": lambda entry: names.get(entry.organization_id, "(removed)")}
            columns = first | columns
        rows = [[cell(entry) for cell in columns.values()] for entry in items]
        output.table(tuple(columns), rows, empty=empty, wide=wide)

    return output.CommandResult(items, show)


def _organizations(target: Target, api: "Api", filters: Mapping[str, str | None]) -> dict[str | None, str]:
    """Return the names of the organizations by their ids, if the list has the changes of all of them; otherwise nothing."""
    if target.resolve().organization or filters.get("path"):
        return {}
    me = api.get("/me", Me)
    if not me.is_system_admin or len(me.organizations) < 2:
        return {}
    return {None: "(server)"} | {each.id: each.name for each in api.list("/organizations", Organization)}


@audit.command("export")
@_filters
@click.option(
    "--format",
    "kind",
    type=click.Choice(["jsonl", "csv"]),
    default="jsonl",
    show_default=True,
    help="JSON, one object on each line; or CSV with a heading.",
)
@click.option(
    "--output", "-o", "file", type=click.File("wb", lazy=False), default="-", help="A file instead of standard output."
)
@pass_target
def export(target_server: Target, kind: str, file: BinaryIO, **filters: str | None) -> None:
    """Write all changes that match to standard output or a file, oldest first, one on each line.

    The export ends with the newest change at the time of the request. It may be of any size.
    """
    counted = _Counted(file)
    target_server.api(timeout=300).download("/audit/export", counted, format=kind, **filters)
    counted.end()


class _Counted:
    """A file that says on a terminal how much has been written to it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._bytes, self._shown_bytes = file, 0, 0
        self._is_shown = sys.stderr.isatty() and not sys.stdout.isatty()

    def write(self, piece: bytes, /) -> int:
        self._bytes += len(piece)
        if self._is_shown and self._bytes - self._shown_bytes >= PROGRESS_BYTES:
            self._shown_bytes = self._bytes
            click.echo(f"\r{self._bytes >> 20} MiB written", err=True, nl=False)
        return self._file.write(piece)

    def end(self) -> None:
        self._file.flush()
        if self._shown_bytes:
            click.echo("", err=True)
