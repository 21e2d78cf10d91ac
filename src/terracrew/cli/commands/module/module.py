"""`terracrew module`: creates, changes and shows modules, their states and their outputs."""

import click

from terracrew.cli.commands.module import contents, dependencies, edit, show, unlock
from terracrew.cli.lazy import LazyGroup


@click.group(cls=LazyGroup)
def module() -> None:
    """Create, change and inspect modules. A module is a source, an engine and its inputs."""


for _command in (show.list_modules, show.show_module, edit.create, edit.update, edit.move, edit.delete, unlock.unlock):
    module.add_command(_command)
for _command in (contents.state, contents.outputs, contents.resources, dependencies.dependencies, dependencies.end_use):
    module.add_command(_command)
