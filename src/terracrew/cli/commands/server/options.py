"""The options of `terracrew server` and `terracrew up`, each of which is also an environment variable."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
_PREFIX = "TERRACREW_SERVER_"


def option(name: str, help_text: str, *aliases: str, **settings: Any) -> Callable[[F], F]:
    """Make an option that can also be set as TERRACREW_SERVER_<NAME>."""
    flags = ["--" + each.replace("_", "-") for each in (name, *aliases)]
    return click.option(*flags, name, envvar=_PREFIX + name.upper(), show_envvar=True, help=help_text, **settings)


def place_options(command: F) -> F:
    """Add the options that `up` and `server` share."""
    data = option(
        "data_directory", "The directory for all data [~/.terracrew/server].", "data_dir", metavar="DIR", type=Path
    )
    host = option("host", "The address to listen on [127.0.0.1].", metavar="HOST")
    port = option("port", "The port to listen on [7400].", type=click.IntRange(0, 65535), metavar="PORT")
    roots = option(
        "local_roots",
        "A source on a local path must be below one of these directories.",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
    )
    isolation = option(
        "runner_isolation",
        "How jobs of the built-in runner are isolated from the rest of this machine [landlock].",
        type=click.Choice(["landlock", "none"]),
    )
    reads = option(
        "runner_read_paths",
        "A further path that jobs of the built-in runner may read, besides the system and the usual credentials.",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="PATH",
    )
    writes = option(
        "runner_write_paths",
        "A further path that jobs of the built-in runner may write, besides their own directories.",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="PATH",
    )
    return data(host(port(roots(isolation(reads(writes(command)))))))


def retention_options(command: F) -> F:
    """Add the options that limit how long stored data is kept."""
    for name, what in (
        ("logs", "logs of ended jobs"),
        ("states", "states that are no longer current"),
        ("archives", "archives that only ended jobs refer to"),
        ("audit", "entries of the audit log"),
    ):
        text = f"How many days {what} are kept [forever]."
        command = option(f"retain_{name}_days", text, type=click.FloatRange(min=1), metavar="DAYS")(command)
    command = option(
        "retain_plans_days",
        "How many days saved plans are kept after no attempt can need them [0].",
        type=click.FloatRange(min=0),
        metavar="DAYS",
    )(command)
    text = "How many of a module's newest states are kept, however old they are [10]."
    return option("retain_states_count", text, type=click.IntRange(min=1), metavar="COUNT")(command)
