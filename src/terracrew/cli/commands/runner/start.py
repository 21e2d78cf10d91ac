"""`terracrew runner start`: reads and checks the settings, then replaces this process by the runner."""

from pathlib import Path
from typing import Any

import click


def _assignments(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise click.BadParameter(f"{wrong[0]!r} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}


@click.command("start")
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="TERRACREW_RUNNER_CONFIG",
    help="Settings file, JSON or TOML.",
)
@click.option("--url", metavar="URL", help="The server's address (server.url).")
@click.option("--id", "runner_id", metavar="ID", help="The runner's id (runner.id).")
@click.option("--organization", metavar="ID", help="Its organization (runner.organization_id).")
@click.option("--instance", metavar="NAME", help="The name of this instance (runner.instance).")
@click.option("--capacity", type=int, metavar="N", help="How many jobs run at once (runner.capacity).")
@click.option("--working-directory", metavar="DIR", help="The directory for attempts and caches.")
@click.option(
    "--set",
    "others",
    multiple=True,
    callback=_assignments,
    metavar="NAME=VALUE",
    help="Any other setting, by its name. Can be repeated.",
)
@click.option("--check", is_flag=True, help="Check the settings and exit.")
def start(
    file: Path | None,
    url: str | None,
    runner_id: str | None,
    organization: str | None,
    instance: str | None,
    capacity: int | None,
    working_directory: str | None,
    others: dict[str, Any],
    check: bool,
) -> None:
    """Start a runner on this machine.

    Options override TERRACREW_… variables, which override the settings file. Secrets are read from the file or the
    environment only. The first Ctrl-C lets running jobs finish; after the second, they continue without the runner.
    """
    from terracrew.settings import layers

    named = {
        "server.url": url,
        "runner.id": runner_id,
        "runner.organization_id": organization,
        "runner.instance": instance,
        "runner.capacity": capacity,
        "working_directory.working_directory": working_directory,
    }
    config = layers.load(file, others | {name: value for name, value in named.items() if value is not None})
    if check:
        click.echo("the settings are valid")
        return
    from terracrew.runner import handover

    handover.become(config)
