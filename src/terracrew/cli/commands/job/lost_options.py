"""The options of the commands that plan with imports of lost resources."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from terracrew.cli.arguments import name_completion
from terracrew.errors import Invalid

F = TypeVar("F", bound=Callable[..., Any])


def import_lost(command: F) -> F:
    """Add `--import-lost [JOB]` and `--leave-out ADDRESS`."""
    for option in (
        click.option(
            "--leave-out",
            "left_out",
            multiple=True,
            metavar="ADDRESS",
            help="With --import-lost: do not import this resource. Can be repeated.",
        ),
        click.option(
            "--import-lost",
            "lost_job",
            is_flag=False,
            flag_value="",
            default=None,
            metavar="[JOB]",
            shell_complete=name_completion.jobs,
            help="Import what JOB created before it was cut short; without JOB, what all jobs did that put the module in doubt. "
            "Give it after the other arguments.",
        ),
    ):
        command = option(command)
    return command


def body(lost_job: str | None, left_out: Sequence[str]) -> dict[str, Any]:
    """Return the part of a request that asks for imports."""
    if lost_job is not None:
        return {"import_lost": {"job": lost_job, "leave_out": list(left_out)}}
    if left_out:
        raise Invalid("--leave-out is for a plan with --import-lost")
    return {}
