"""`terracrew runner settings`, `environment` and `schema`: which settings and variables a runner would have, and which there are."""

from pathlib import Path

import click

from terracrew.cli.commands.runner.options import setting_options
from terracrew.cli.printing import output, settings_table


@click.command("settings")
@setting_options
@output.json_option
def settings(file: Path | None, given: dict[str, str], flags: dict[str, str]) -> output.Result:
    """Print the settings with which `runner start` would start, each with the layer that it came from.

    The layers are, from low to high: defaults, the settings file, the environment, the command line, external settings. A
    value that is overridden is below the one that counts. Secrets are hidden.
    """
    from terracrew.settings import layers

    return settings_table.show_effective(layers.merged(file, given, flags))


@click.command("environment")
@output.json_option
def environment() -> output.Result:
    """Print which variables of this shell the engines of a runner that is started here would get, without their values.

    Engines get all of them except those of Terracrew itself. In containers they get only what the parameter ENVIRONMENT of
    the dispatcher names.
    """
    from terracrew.cli.printing import engine_environment

    return engine_environment.show_of_runner()


@click.command("schema")
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors (`"$schema"`) and programs."""
    from terracrew.settings import runner

    output.print_json(runner.schema())
