"""`terracrew demo`: start everything and run the sample modules."""

import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import click

from terracrew.cli.arguments import values

if TYPE_CHECKING:
    from terracrew.demo.machine import Machine


@click.command()
@click.option("--exit", "exits", is_flag=True, help="Stop after the jobs instead of serving until Ctrl-C.")
@click.option(
    "--port", type=values.WholeNumber(1, 65535), help="The port to listen on; by default the first free one from 7400."
)
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="The directory for its data [~/.cache/terracrew/demo]."
)
@click.option("--fresh", is_flag=True, help="Delete the data of earlier demos first.")
def demo(exits: bool, port: int | None, data_dir: Path | None, fresh: bool) -> int:
    """Start everything and run the sample modules, with a separate data directory.

    Exits with 0 if each sample ended as expected; one of them is expected to fail.
    """
    from terracrew.demo import driver, git_server
    from terracrew.demo.machine import Machine

    signal.signal(signal.SIGTERM, _interrupt)
    machine = Machine(port, data_dir, fresh=fresh)
    with git_server.serving(git_server.make(machine.directory / "repository")) as served:
        try:
            is_fine = driver.run(machine, served)
            if not exits:
                _serve(machine)
        finally:
            machine.stop()
    return 0 if is_fine else 1


def _serve(machine: "Machine") -> None:
    from terracrew.demo import driver

    try:
        driver.invite(machine)
        machine.serve()
    except KeyboardInterrupt:
        click.echo("\nstopping")


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
