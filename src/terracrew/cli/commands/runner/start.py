"""`terracrew runner start`: reads and checks the settings, then replaces this process by the runner."""

from pathlib import Path

import click

from terracrew.cli.commands.runner.options import setting_options


@click.command("start")
@setting_options
@click.option("--check", is_flag=True, help="Check the settings and exit.")
def start(file: Path | None, given: dict[str, str], flags: dict[str, str], check: bool) -> None:
    """Start a runner on this machine.

    Options override TERRACREW_… variables, which override the settings file; external settings override all of them, and
    `terracrew runner settings` shows the result. Secrets are read from the file, the environment or a vault. SIGHUP reads
    everything again. The first Ctrl-C lets running jobs finish; after the second, they continue without the runner.
    """
    from terracrew.settings import layers

    config = layers.load(file, given, flags)
    if check:
        click.echo("the settings are valid")
        return
    from terracrew.runner import handover

    handover.become(config, str(file.absolute()) if file else None, given, flags)
