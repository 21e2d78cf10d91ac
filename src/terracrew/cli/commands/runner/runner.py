"""`terracrew runner`: starts, registers and manages runners."""

import click

from terracrew.cli.commands.runner import assign, configure, drain, edit, show
from terracrew.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "start": ("terracrew.cli.commands.runner.start:start", "Start a runner on this machine."),
        "settings": ("terracrew.cli.commands.runner.settings:settings", "Print the settings of a runner here."),
        "schema": ("terracrew.cli.commands.runner.settings:schema", "Print the JSON Schema of the settings file."),
    },
)
def runner() -> None:
    """Start, register and manage runners. PATH is a runner's path (`group/name`) or id."""


for _command in (show.list_runners, show.show_runner, edit.register, edit.create, edit.update, edit.remove):
    runner.add_command(_command)
for _command in (drain.drain, drain.undrain, configure.configure, assign.assign):
    runner.add_command(_command)
