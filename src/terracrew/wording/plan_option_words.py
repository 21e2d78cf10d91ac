"""Puts the options of a job's plan into words, and into the options of a command that asks for the same job."""

import shlex
from collections.abc import Sequence
from typing import Protocol

MAX_SHOWN_ADDRESSES = 20


class _Options(Protocol):
    @property
    def is_refresh_only(self) -> bool: ...
    @property
    def targets(self) -> Sequence[str]: ...
    @property
    def replace(self) -> Sequence[str]: ...
    @property
    def refresh(self) -> bool: ...


def rows(options: _Options) -> list[tuple[str, str]]:
    """Return what a job's plan is limited to and made to do, each with its title. Whether it is refresh-only is part of its type."""
    found = [("Only", some(options.targets)), ("Replaces", some(options.replace))]
    found.append(("Refresh", "" if options.refresh else "left out: the plan relies on the state alone"))
    return [(title, text) for title, text in found if text]


def command(options: _Options) -> str:
    """Return the options of `terracrew job run` that ask for the same, each with a space before it."""
    found = [f" --target {shlex.quote(each)}" for each in options.targets]
    found += [f" --replace {shlex.quote(each)}" for each in options.replace]
    found += [] if options.refresh else [" --no-refresh"]
    return "".join([*found, " --refresh-only"] if options.is_refresh_only else found)


def some(addresses: Sequence[str]) -> str:
    """Return the first of these addresses, and how many more there are."""
    shown = ", ".join(addresses[:MAX_SHOWN_ADDRESSES])
    more = len(addresses) - MAX_SHOWN_ADDRESSES
    return f"{shown} and {more} more" if more > 0 else shown
