"""`terracrew demo`: start everything and run the sample modules."""

import signal
from pathlib import Path
from types import FrameType

import click


@click.command()
@click.option("--exit", "leave", is_flag=True, help="Stop after the jobs instead of serving until Ctrl-C.")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="The port to listen on; by default the first free one from 7400."
)
@click.option("--data-dir", type=click.Path(path_type=Path), help="Where its data is kept [~/.cache/terracrew/demo].")
@click.option("--fresh", is_flag=True, help="Forget what earlier demos left behind.")
def demo(leave: bool, port: int | None, data_dir: Path | None, fresh: bool) -> int:
    """Start everything and run the sample modules, in a data directory of their own.

    Exits with 0 if each sample ended as it should; one of them has to fail.
    """
    from terracrew.demo import driver
    from terracrew.demo.machine import Machine

    signal.signal(signal.SIGTERM, _interrupt)
    machine = Machine(port, data_dir, fresh=fresh)
    try:
        is_fine = driver.run(machine)
        if not leave:
            try:
                driver.invite(machine)
                machine.serve()
            except KeyboardInterrupt:
                click.echo("\nstopping")
    finally:
        machine.stop()
    return 0 if is_fine else 1


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
