"""`terracrew runner start`: reads and checks the settings, then becomes the runner."""

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
@click.option("--id", "runner_id", metavar="ID", help="The runner's record (runner.id).")
@click.option("--organization", metavar="ID", help="Its organization (runner.organization_id).")
@click.option("--instance", metavar="NAME", help="This process among the runner's instances (runner.instance).")
@click.option("--capacity", type=int, metavar="N", help="Jobs at once (runner.capacity).")
@click.option("--working-directory", metavar="DIR", help="Where attempts and caches live.")
@click.option(
    "--set", "others", multiple=True, callback=_assignments, metavar="NAME=VALUE", help="Any other setting by its name."
)
@click.option("--check", is_flag=True, help="Check the settings and end.")
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

    Settings come from a file, then TERRACREW_… variables, then these options. Secrets are taken from the file or the
    environment only. The first Ctrl-C lets running jobs finish; the second leaves them to go on alone.
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
        click.echo("these settings are fine")
        return
    from terracrew.runner import handover

    handover.become(config)
