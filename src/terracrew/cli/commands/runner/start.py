"""`terracrew runner start`, `settings`, `environment` and `schema`: the settings of a runner, and the runner that starts with them."""

import contextlib
import functools
import os
import signal
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import click
import msgspec

from terracrew.cli.arguments.values import Duration
from terracrew.cli.printing import output, settings_table
from terracrew.errors import Invalid

FLAGS = {
    "server.url": "--url",
    "runner.id": "--id",
    "runner.path": "--path",
    "runner.organization_id": "--organization",
    "runner.instance": "--instance",
    "runner.capacity": "--capacity",
    "working_directory.working_directory": "--working-directory",
}
"""The settings with an option of their own. Every other one can be given with `--set`."""
_HELP = {
    "server.url": ("URL", "The server's address (server.url)."),
    "runner.id": ("ID", "The runner's id (runner.id)."),
    "runner.path": ("PATH", "The runner's path, instead of its id (runner.path)."),
    "runner.organization_id": ("ID", "Its organization (runner.organization_id)."),
    "runner.instance": ("NAME", "The name of this instance (runner.instance)."),
    "runner.capacity": ("N", "How many jobs this instance runs at once (runner.capacity)."),
    "working_directory.working_directory": ("DIR", "The directory for attempts and caches."),
}


def setting_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options. The command gets the file as `file`, the given settings by their names as `given`, and the options
    that gave them as `flags`; other settings were given with `--set`."""

    @functools.wraps(command)
    def collected(*args: Any, others: dict[str, str], **values: Any) -> Any:
        found = {name: values.pop(_argument(name)) for name in FLAGS}
        named = {name: value for name, value in found.items() if value is not None}
        return command(*args, given=others | named, flags={name: FLAGS[name] for name in named}, **values)

    decorated = click.option(
        "--set",
        "others",
        multiple=True,
        callback=_assignments,
        metavar="NAME=VALUE",
        help="Any other setting, by its name. Can be repeated.",
    )(collected)
    for name, (metavar, help_text) in reversed(_HELP.items()):
        decorated = click.option(FLAGS[name], _argument(name), metavar=metavar, help=help_text)(decorated)
    return click.option(
        "--config",
        "file",
        type=click.Path(path_type=Path),
        envvar="TERRACREW_RUNNER_CONFIG",
        help="Settings file, JSON or TOML.",
    )(decorated)


def _argument(name: str) -> str:
    return name.replace(".", "_")


def _assignments(_context: click.Context, _option: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [value.partition("=") for value in values]
    if wrong := [name for name, equals, _ in pairs if not equals]:
        raise click.BadParameter(f"{wrong[0]!r} is not NAME=VALUE")
    return {name: value for name, _, value in pairs}


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


@click.command("settings")
@setting_options
@output.json_option
def settings(file: Path | None, given: dict[str, str], flags: dict[str, str]) -> output.CommandResult:
    """Print the settings with which `runner start` would start, each with the layer that it came from.

    The layers are, from low to high: defaults, the settings file, the environment, the command line, external settings. A
    value that is overridden is below the one that counts. Secrets are hidden.
    """
    from terracrew.settings import layers

    return settings_table.show_effective(layers.merged(file, given, flags))


@click.command("environment")
@output.json_option
def environment() -> output.CommandResult:
    """Print which variables of this shell the engines of a runner that is started here would get, without their values.

    Engines get all of them except those of Terracrew itself. In containers they get only what the parameter ENVIRONMENT of
    the dispatcher names.
    """
    from terracrew.cli.printing import settings_table

    return settings_table.show_of_runner()


@click.command("schema")
def schema() -> None:
    """Print the JSON Schema of the settings file, for editors (`"$schema"`) and programs."""
    from terracrew.settings import runner

    output.print_json(runner.schema())
