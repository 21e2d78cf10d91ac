"""`terracrew runner`: starts, registers and manages runners."""

import click

from terracrew.cli.commands.runner import (
    alerts,
    assign,
    configure,
    deploy,
    drain,
    once_token,
    register,
    remove,
    show,
    update,
)
from terracrew.cli.lazy import LazyGroup


@click.group(
    cls=LazyGroup,
    lazy={
        "start": ("terracrew.cli.commands.runner.start:start", "Start a runner on this machine."),
        "settings": ("terracrew.cli.commands.runner.settings:settings", "Print the settings of a runner here."),
        "environment": (
            "terracrew.cli.commands.runner.settings:environment",
            "Print which variables of this shell engines would get.",
        ),
        "schema": ("terracrew.cli.commands.runner.settings:schema", "Print the JSON Schema of the settings file."),
    },
)
def runner() -> None:
    """Start, register and manage runners. PATH is a runner's path (`group/name`) or id."""


for _command in (
    show.list_runners,
    show.show_runner,
    alerts.alerts,
    register.register,
    register.reregister,
    register.create,
    deploy.deploy,
    deploy.redeploy,
    deploy.wake,
    deploy.deployment,
    deploy.destroy,
    update.update,
    update.disable,
    update.enable,
    drain.drain,
    drain.undrain,
    assign.assign,
    assign.unassign,
    remove.remove,
    once_token.once_token,
    configure.configure,
):
    runner.add_command(_command)
