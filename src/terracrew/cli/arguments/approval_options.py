"""Options of groups and modules that decide when a plan needs an approval, and who may give it."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
INHERIT = "inherit"
NONE = "none"
MAX_APPROVALS = 20
_KEY = "terracrew.approval_options"


class _CountOrInherit(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic to the checker alone
    name = "N|inherit"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == INHERIT or isinstance(value, int):
            return value
        if not str(value).isdigit():
            self.fail(f"{value!r} is neither a number nor `{INHERIT}`", param, ctx)
        return int(value)


class _CountOrNone(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic to the checker alone
    name = "N|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if value == NONE or isinstance(value, int):
            return value
        if not str(value).isdigit() or not 1 <= int(value) <= MAX_APPROVALS:
            self.fail(f"{value!r} is neither a number from 1 to {MAX_APPROVALS} nor `{NONE}`", param, ctx)
        return int(value)


def _keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value is not None:
        sent = {INHERIT: None, NONE: None, "yes": True, "no": False}.get(value, value)
        ctx.meta.setdefault(_KEY, {})[param.name] = sent


def _option(name: str, kind: _CountOrInherit | click.Choice[str], text: str) -> Callable[[F], F]:
    return click.option(name, type=kind, expose_value=False, callback=_keep, help=text)


def destroy_limits(command: F) -> F:
    """Add the options that limit how much an apply may destroy without an approval."""
    count, percent = "--max-destroy", "--max-destroy-percent"
    command = _option(
        percent,
        _CountOrInherit(),
        "An apply that destroys more than this percentage of the existing resources needs an approval. The smallest number of all "
        "places from the organization down applies.",
    )(command)
    text = (
        "An apply that destroys more resources than this needs an approval. The smallest number of all places from the "
        "organization down applies."
    )
    return _option(count, _CountOrInherit(), text)(command)


def approvers(command: F) -> F:
    """Add the options that decide who may approve a plan."""
    choice = click.Choice(["yes", "no", INHERIT])
    above = "`yes` has no effect below a group that says `no`."
    accounts, own = (
        "Whether service accounts may approve plans.",
        "Whether the person who queued a job may approve its plan.",
    )
    command = _option("--service-account-approval", choice, f"{accounts} {above}")(command)
    return _option("--self-approval", choice, f"{own} {above}")(command)


def min_approvals(command: F) -> F:
    """Add the option that decides how many people must approve a change."""
    text = (
        "How many different people must approve each apply and destroy (1 to 20), or `none`. The largest number of the module "
        "and the groups above it applies."
    )
    return click.option("--min-approvals", type=_CountOrNone(), expose_value=False, callback=_keep, help=text)(command)


def given() -> dict[str, Any]:
    """Return those of these options that were given, as fields of the request."""
    return click.get_current_context().meta.get(_KEY, {})
