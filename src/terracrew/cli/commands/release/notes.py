"""`terracrew release notes`: prints what is written about the versions between two."""

import sys
from typing import Any

import click

from terracrew.cli.arguments import name_completion
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.wording.escapes import plain


@click.command(
    "notes",
    epilog=output.examples(
        "terracrew release notes --since 0.1.0",
        "terracrew release notes --since 0.1.0-rc.1 --until 0.1.0-rc.3",
    ),
)
@click.option(
    "--since",
    metavar="VERSION",
    shell_complete=name_completion.releases,
    help="Only versions higher than this one, for example the version of a runner.",
)
@click.option(
    "--until",
    metavar="VERSION",
    shell_complete=name_completion.releases,
    help="Only versions up to this one, included.",
)
@output.json_option
@pass_target
def show_notes(target: Target, since: str | None, until: str | None) -> output.Result:
    """Print the notes of every version between two, the highest first.

    A breaking version is marked, with what to do before an update to it. A withdrawn one is struck through, with the reason.
    """
    items = list(target.api().list("/releases/notes", since=since, until=until))

    def show() -> None:
        if not items:
            click.echo("no releases in this range: `terracrew release list` lists all of them", err=True)
        for index, each in enumerate(items):
            if index:
                click.echo()
            _print(each)

    return output.Result(items, show)


def _print(found: dict[str, Any]) -> None:
    is_withdrawn = bool(found["withdrawn_at"])
    version = click.style(output.text(found["version"]), bold=True, strikethrough=is_withdrawn)
    marks = ["withdrawn"] if is_withdrawn else []
    marks += ["BREAKING"] if found["is_breaking"] else []
    suffix = click.style("".join(f"  {mark}" for mark in marks), fg="red" if found["is_breaking"] else "yellow")
    click.echo(f"{version}  {click.style(found['released_at'][:10], dim=True)}{suffix}")
    if is_withdrawn:
        click.echo(f"withdrawn: {_printable(found['withdrawn_reason'])}")
    if found["is_breaking"]:
        click.echo(f"before an update: {_printable(found['breaking_words'])}")
    if found["link"]:
        click.echo(output.text(found["link"]))
    click.echo()
    _print_markdown(_printable(found["notes"]))


def _printable(text: str) -> str:
    """Return a text of several lines that cannot move the cursor or change colours."""
    return plain(text).replace("\r\n", "\n").replace("\r", "\n")


def _print_markdown(text: str) -> None:
    """Print Markdown with its headings and lists drawn. A pipe gets the text as it was written."""
    if not sys.stdout.isatty():
        return click.echo(text)
    from rich.console import Console
    from rich.markdown import Markdown

    # Links are printed with their addresses, because a terminal that follows them shows no address before.
    return Console(highlight=False).print(Markdown(text, hyperlinks=False))
