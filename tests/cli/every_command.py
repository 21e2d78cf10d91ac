"""Every command of the command line, found by walking its tree."""

from collections.abc import Iterator

import click

from terracrew.cli.main import cli


def commands(at: click.Command = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, with the words that call it."""
    if not isinstance(at, click.Group):
        yield " ".join(path), at
        return
    context = click.Context(at)
    for name in at.list_commands(context):
        command = at.get_command(context, name)
        assert command is not None
        yield from commands(command, (*path, name))


COMMANDS = dict(commands())
