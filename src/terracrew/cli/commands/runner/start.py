"""`terracrew runner start`: reads and checks the settings, then replaces this process by the runner."""

import contextlib
import os
import signal
from collections.abc import Generator
from pathlib import Path

import click
import msgspec

from terracrew.cli.arguments.durations import Duration
from terracrew.cli.commands.runner.options import setting_options
from terracrew.cli.printing import output
from terracrew.errors import Invalid


@contextlib.contextmanager
def _hangup_later() -> Generator[None]:
    """Let a SIGHUP wait until the runner, which this process becomes, can react to it. It would end the process otherwise."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:  # it has not become the runner
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@click.command(
    "start",
    epilog=output.examples(
        "terracrew runner start",
        "terracrew runner start --config runner.toml --check",
        "terracrew runner start --once --wait 10m",
    ),
)
@setting_options
@click.option("--once", is_flag=True, help="Run one job, deliver everything of it, and exit with its exit code.")
@click.option(
    "--wait", type=Duration(), metavar="DURATION", help="With --once: wait at most this long for a job (90s, 30m, 24h)."
)
@click.option(
    "--wait-for-drain",
    type=Duration(),
    metavar="DURATION",
    help="Wait at most this long for another runner that ends in the same working directory.",
)
@click.option("--check", is_flag=True, help="Check the settings and exit.")
def start(
    file: Path | None,
    given: dict[str, str],
    flags: dict[str, str],
    once: bool,
    wait: int | None,
    wait_for_drain: int | None,
    check: bool,
) -> None:
    """Start a runner on this machine.

    Options override TERRACREW_… variables, which override the settings file; external settings override all of them, and
    `terracrew runner settings` shows the result. Secrets are read from the file, the environment or a vault. SIGHUP reads
    everything again. The first Ctrl-C lets running jobs finish; after the second, they continue without the runner.

    With --once, the exit code is that of the job: 0 succeeded, 10 failed, 11 canceled, 14 waiting for approval, which takes
    another run; 15 if no job came in time, and 16 if the job continues elsewhere or is in doubt.
    """
    if wait is not None and not once:
        raise Invalid("--wait is for --once: a runner without it waits for jobs until it is stopped")
    from terracrew.runner.one_job import TOKEN_PREFIX, OneJobSettings
    from terracrew.settings import layers

    with _hangup_later():
        config = layers.load(file, given, flags)
        if config.client_secret.startswith(TOKEN_PREFIX) and not once:
            raise Invalid("this token is for one job: start the runner with --once")
        if check:
            click.echo("the settings are valid")
            return
        from terracrew.runner import handover, installation, instance

        if wait_for_drain is not None:
            instance.wait_for_drain(config.working_directory, wait_for_drain, output.note)
        one_job = OneJobSettings(wait) if once else None
        path = str(file.absolute()) if file else None
        config = msgspec.structs.replace(config, installation=installation.find(os.environ))
        if config.updates_itself and not handover.why_not_launched(config, one_job):
            from terracrew.runner.updating import start as launched_start

            launched_start.become(config, path, given, flags)
        handover.become(config, path, given, flags, one_job)
