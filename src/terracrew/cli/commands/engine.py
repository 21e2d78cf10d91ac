"""`terracrew engine`: which engines this machine has, and how it gets one."""

import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from terracrew.cli.lazy import LazyGroup
from terracrew.cli.printing import output, streams
from terracrew.wording.escapes import plain

if TYPE_CHECKING:
    from terracrew.toolchains.cache import InstallProgress

_PLAIN_LINE_SECONDS = 5.0  # between two lines of progress where there is no terminal


@click.group(cls=LazyGroup)
def engine() -> None:
    """Find and install OpenTofu, Terraform and Pulumi, and Open Policy Agent for the server."""


_paths = click.option(
    "--path", "paths", multiple=True, metavar="DIR", help="Search this directory before PATH. Can be repeated."
)


@engine.command("list")
@_paths
@output.json_option
def list_engines(paths: Sequence[str]) -> output.CommandResult:
    """List the engines on this machine. Jobs use the first one of each name."""
    from terracrew.toolchains import discovery, specs

    found = discovery.find_all(paths)
    rows = [("ENGINE", "VERSION", "PATH")]
    for spec in specs.ENGINES.values():
        mine = [(one.name, one.version, one.path) for one in found if one.name == spec.name]
        rows += mine or [(spec.name, "—", f"not installed; terracrew engine install {spec.name}")]
    # Not a Rich table: that would cut off the path, the one thing worth copying.
    wide = [max(len(row[column]) for row in rows) for column in (0, 1)]

    def show() -> None:
        for name, version, path in rows:
            click.secho(f"{name:{wide[0]}}  {version:{wide[1]}}  {path}", dim=version in ("VERSION", "—"))

    return output.CommandResult(found, show)


@engine.command("install")
@click.argument("name")
@click.option(
    "--version", metavar="V", help="The version to install; by default the one that Terracrew is tested with."
)
@click.option("--force-build", is_flag=True, help="Build it from source, even if it is installed.")
@_paths
@output.json_option
def install_engine(name: str, version: str | None, force_build: bool, paths: Sequence[str]) -> output.CommandResult:
    """Install the engine NAME (tofu, terraform, pulumi) unless it is installed; or opa, with which the server checks policies.

    A released binary is verified by its checksum. If no release can be downloaded, the engine is built from source.
    """
    from terracrew.toolchains import install

    with showing_progress() as report:
        found = install.install(name, version, report=report, force_build=force_build, extra_paths=paths)
    return output.CommandResult(found, lambda: None)


@contextmanager
def showing_progress() -> Generator[Callable[["InstallProgress"], None]]:
    """Show the progress of an installation on standard error: a bar on a terminal, a line now and then elsewhere."""
    if not sys.stderr.isatty():
        yield _plain()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.fields[stage]}"),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[amount]}", style="cyan"),
        TimeElapsedColumn(),
        TextColumn("{task.description}", style="dim", markup=False),
    )
    with Progress(*columns, console=Console(file=streams.unguarded_stderr())) as bars:
        task, stage = None, ""

        def report(now: "InstallProgress") -> None:
            nonlocal task, stage
            if task is not None and now.stage != stage:
                bars.update(task, total=1, completed=1, description="")
                task, stage = None, ""
            if now.stage in ("note", "ready"):
                bars.console.print(plain(now.text), highlight=False, markup=False)
                return
            if task is None:
                task, stage = bars.add_task("", total=None, stage=_STAGES[now.stage], amount=""), now.stage
            bars.update(
                task, total=now.total or None, completed=now.done, description=plain(now.text), amount=_amount(now)
            )

        yield report


_STAGES = {"wait": "Waiting", "download": "Downloading", "go": "Getting Go", "modules": "Fetching", "build": "Building"}


def _plain() -> Callable[["InstallProgress"], None]:
    said, stage = 0.0, ""

    def report(now: "InstallProgress") -> None:
        nonlocal said, stage
        clock = time.monotonic()
        if now.stage in ("note", "ready") or now.stage != stage or clock - said >= _PLAIN_LINE_SECONDS:
            said, stage = clock, now.stage
            click.echo(": ".join(part for part in (_amount(now), now.text) if part), err=True)

    return report


def _amount(now: "InstallProgress") -> str:
    if now.stage == "download":
        return f"{now.done / 1e6:.1f}{f' of {now.total / 1e6:.1f}' if now.total else ''} MB"
    if now.stage == "build":
        return f"{now.done} of {now.total} packages"
    return f"{now.done} modules" if now.stage == "modules" and now.done else ""
