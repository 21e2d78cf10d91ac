"""The menus of a list of runners.

The menu of a runner is a quarter of its row, and to render 50 of them took a third of the page. Runners in the same condition
have the same menu except for their ids and paths, so a menu is rendered once for each condition.
"""

from collections.abc import Callable

import msgspec
from markupsafe import Markup

from terracrew.server.runners.model import RunnerType, RunnerView

_ID, _PATH = "id-of-the-runner", "path-of-the-runner"
"""What a menu contains in place of the id and the path."""


class RunnerCondition(msgspec.Struct, frozen=True):
    """All that a menu depends on, under the names that a runner has for it."""

    is_draining: bool
    removing_since: bool
    """Whether the runner is being removed."""
    is_disabled: bool
    is_declared: bool
    has_worker_token: bool
    type: RunnerType
    is_outdated: bool
    latest_version: str | None
    id: str = _ID
    path: str = _PATH


class RunnerMenus:
    """`macro` renders the menu of a runner, or of a condition, with a token for its forms."""

    def __init__(self, macro: Callable[[RunnerCondition, str], Markup], csrf: str) -> None:
        self._macro = macro
        self._csrf = csrf
        self._made: dict[RunnerCondition, Markup] = {}

    def of(self, runner: RunnerView) -> Markup:
        condition = RunnerCondition(
            runner.is_draining,
            runner.removing_since is not None,
            runner.is_disabled,
            runner.is_declared,
            runner.has_worker_token,
            runner.type,
            runner.is_outdated,
            runner.latest_version,
        )
        if condition not in self._made:
            self._made[condition] = self._macro(condition, self._csrf)
        return self._made[condition].replace(_ID, runner.id).replace(_PATH, runner.path)
