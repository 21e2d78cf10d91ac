"""Options of a module that decide which runners get its jobs, and how many jobs of a group run at once."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from terracrew.cli.arguments import name_completion, values
from terracrew.errors import Invalid

F = TypeVar("F", bound=Callable[..., Any])
_KEY = "terracrew.placement_options"
PRIORITIES = values.WholeNumber(-100, 100)
"""The same bounds as those of the server."""


def _keep(field: str, value_of: Callable[[Any], Any] = lambda value: value) -> Callable[..., None]:
    """Return a callback that keeps the value of an option as a field of the request."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value is None or value == () or value is False:
            return
        given: dict[str, tuple[Any, str]] = ctx.meta.setdefault(_KEY, {})
        option = param.opts[0]
        if field in given:
            raise Invalid(f"{given[field][1]} and {option} exclude each other: give only one of them")
        given[field] = value_of(value), option

    return keep


def _option(name: str, field: str, text: str, value_of: Callable[[Any], Any], **settings: Any) -> Callable[[F], F]:
    return click.option(name, expose_value=False, callback=_keep(field, value_of), help=text, **settings)


def _removal(name: str, field: str, text: str, value: Any = None) -> Callable[[F], F]:
    """Return an option without an argument that sets a field to null, or to another empty value."""
    return _option(name, field, text, lambda _: value, is_flag=True)


_runner = _option(
    "--runner",
    "runner",
    "Run on this runner only.",
    lambda path: path or None,
    metavar="PATH",
    shell_complete=name_completion.runners,
)
_instance = _option(
    "--instance",
    "runner_instance_name",
    "Run on the instance of this name only, of any runner that the module may use, or of the one that --runner names.",
    lambda name: name or None,
    metavar="NAME",
)
_tags = _option(
    "--tag",
    "tags",
    "Run only on runners with this tag. Can be repeated; replaces all tags.",
    lambda tags: [tag for tag in tags if tag],
    metavar="TAG",
    multiple=True,
)
_priority = _option(
    "--priority",
    "priority",
    "The priority of its jobs, from -100 to 100: a job with a higher one runs first.",
    lambda priority: priority,
    type=PRIORITIES,
)
_no_runner = _removal("--no-runner", "runner", "Run on any runner that the module may use.")
_no_instance = _removal("--no-instance", "runner_instance_name", "Run on any instance.")
_no_tags = _removal("--no-tags", "tags", "Remove all tags.", [])
_max_running_jobs = _option(
    "--max-running-jobs",
    "max_running_jobs",
    "How many jobs of the modules in and below the group may run at once.",
    lambda count: count,
    type=values.WholeNumber(1, 1_000_000),
    metavar="N",
)
_no_max_running_jobs = _removal("--no-max-running-jobs", "max_running_jobs", "Do not limit how many jobs run at once.")


def for_new_module(command: F) -> F:
    """Add --runner, --instance, --tag and --priority."""
    return _runner(_instance(_tags(_priority(command))))


def for_module(command: F) -> F:
    """Add the same options, and those that remove what was chosen before."""
    return _runner(_no_runner(_instance(_no_instance(_tags(_no_tags(_priority(command)))))))


def for_new_group(command: F) -> F:
    """Add --max-running-jobs."""
    return _max_running_jobs(command)


def for_group(command: F) -> F:
    """Add --max-running-jobs and --no-max-running-jobs."""
    return _max_running_jobs(_no_max_running_jobs(command))


def given() -> dict[str, Any]:
    """Return those of these options that were given, as fields of the request."""
    kept: dict[str, tuple[Any, str]] = click.get_current_context().meta.get(_KEY, {})
    return {field: value for field, (value, _) in kept.items()}
