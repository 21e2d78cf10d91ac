"""`terracrew server`: the control plane alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from terracrew.cli import local

F = TypeVar("F", bound=Callable[..., Any])
_PREFIX = "TERRACREW_SERVER_"


def option(name: str, help_text: str, *aliases: str, **settings: Any) -> Callable[[F], F]:
    """An option of a server that is also TERRACREW_SERVER_<NAME>."""
    flags = ["--" + each.replace("_", "-") for each in (name, *aliases)]
    return click.option(*flags, name, envvar=_PREFIX + name.upper(), show_envvar=True, help=help_text, **settings)


def place_options(command: F) -> F:
    """What `up` and `server` share: where the data lies and where it listens."""
    data = option(
        "data_directory", "Where everything is kept [~/.terracrew/server].", "data_dir", metavar="DIR", type=Path
    )
    host = option("host", "The address to listen on [127.0.0.1].", metavar="HOST")
    port = option("port", "The port to listen on [7400].", type=click.IntRange(0, 65535), metavar="PORT")
    roots = option(
        "local_roots",
        "A source on a local path must lie below one of these.",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
    )
    return data(host(port(roots(command))))


@click.command()
@place_options
@option("database_url", "PostgreSQL (`postgresql://…`); SQLite in the data directory without it.", metavar="URL")
@option("public_url", "How browsers and runners reach this server.", metavar="URL")
@option("master_key_file", "The key that encrypts secrets; PostgreSQL needs one.", type=Path, metavar="FILE")
@option("object_store", "`s3://…`, `gs://…`, `az://…`; a folder in the data directory without it.", metavar="URL")
@option("organization", "The name of the organization that a first start makes [default].", metavar="NAME")
@option(
    "apply_lease_seconds",
    "How long an attempt that was lost in the middle of a change is waited for [1800].",
    type=click.FloatRange(min=60),
    metavar="SECONDS",
)
@option(
    "late_delivery_days",
    "How long a lost attempt may still deliver what it has [7].",
    type=click.FloatRange(min=0, min_open=True),
    metavar="DAYS",
)
@click.option("--with-runner", is_flag=True, help="Run the built-in shared runner in this process, too.")
def server(with_runner: bool, **given: Any) -> None:
    """Start the control plane alone; runners connect to it. It listens on loopback unless told otherwise."""
    serve(given, with_builtin_runner=with_runner)


def serve(given: dict[str, Any], *, with_builtin_runner: bool) -> None:
    """Serve until the process is told to stop; the settings' own defaults stand for what is not given."""
    from terracrew.server.main import run
    from terracrew.server.settings import ServerSettings

    settings = ServerSettings(**{name: value for name, value in given.items() if value not in (None, ())})
    settings.check()
    host = "127.0.0.1" if settings.host in ("", "0.0.0.0", "::") else settings.host  # noqa: S104  (compared, not bound)
    with local.announced(f"http://{f'[{host}]' if ':' in host else host}:{settings.port}", settings.directory):
        run(settings, with_builtin_runner=with_builtin_runner)
