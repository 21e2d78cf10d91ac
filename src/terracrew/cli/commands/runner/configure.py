"""`terracrew runner configure`: changes settings of a runner's instances while they run."""

from typing import Any

import click

from terracrew.cli.arguments import name_completion, numbers
from terracrew.cli.commands.runner.api_path import api_path
from terracrew.cli.connection.target import Target, pass_target
from terracrew.cli.printing import output
from terracrew.errors import Invalid
from terracrew.protocol.limits import MAX_LOG_BATCH_EVENTS, MAX_LOG_PERIOD_SECONDS


@click.command("configure")
@click.argument("path", shell_complete=name_completion.runners)
@click.option(
    "--heartbeat-seconds", type=numbers.Number(1, 30), help="The time between two heartbeats of an instance [10]."
)
@click.option(
    "--log-level",
    "levels",
    multiple=True,
    metavar="CATEGORY=LEVEL",
    help="Trace, Debug, Information, Warning, Error, Critical or None; an empty level removes the category. Can be repeated.",
)
@click.option(
    "--log-batch-size",
    "batch_size_limit",
    type=numbers.Whole(1, MAX_LOG_BATCH_EVENTS),
    help="How many log events are sent in one batch.",
)
@click.option(
    "--log-period",
    "period_seconds",
    type=numbers.Number(0, MAX_LOG_PERIOD_SECONDS, min_open=True),
    help="How many seconds a log event waits for its batch to fill.",
)
@click.option("--reset", is_flag=True, help="Remove the whole configuration, so that the runner's own settings apply.")
@output.json_option
@pass_target
def configure(target: Target, path: str, levels: tuple[str, ...], reset: bool, **given: Any) -> output.Result:
    """Change settings of all instances of the runner PATH without a restart. Options that are not given change nothing.

    The batch size and the period apply while nobody watches a log; a watched log is sent line by line.
    """
    change = {name: value for name, value in given.items() if value is not None} | (
        {"log_level": dict(_level(each) for each in levels)} if levels else {}
    )
    if reset == bool(change):
        raise Invalid("give the settings to change, or --reset alone")
    found: Any = target.api().patch(api_path(path), {"configuration": None if reset else change})
    configured = {name: value for name, value in found["configuration"].items() if value}
    return output.details(
        found,
        [("path", found["path"]), *configured.items()]
        if configured
        else [("path", found["path"]), ("configuration", "its own settings")],
    )


def _level(text: str) -> tuple[str, str | None]:
    category, equals, level = text.partition("=")
    if not category or not equals:
        raise Invalid(f"--log-level {text!r} is not CATEGORY=LEVEL")
    return category, level.capitalize() or None
