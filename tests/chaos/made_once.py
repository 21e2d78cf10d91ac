"""The ninth rule: what an engine has created is created a second time only after a person has decided so.

The witnesses say what exists: a thing exists from its line `made` to its line `destroyed`. An engine that knows of a thing
destroys it before it makes another of the same name. So if a thing is made while another of its name exists, the attempt
that made the other was cut short, or its last state did not arrive. Between the last sign of that attempt and the second
making, a person must have decided, and must have been shown that attempt:

- they approved a plan of the module, were shown the attempt among the doubts, and that plan has begun; or
- they discarded a state of that attempt; or
- the database was set back since, they were shown that among the doubts, and the plan that they approved then has begun.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from tests.chaos.set_back import SetBack
from tests.chaos.witness import Record


class Look(msgspec.Struct, frozen=True):
    """A decision of a person that was not refused, as the person recorded it."""

    at: float
    """When the person began to look, before the decision was sent."""
    act: Literal["approve", "discard"]
    job: str
    """Of the plan or of the state."""
    module: str
    shown: frozenset[str]
    """The attempts (`job.number`) that the decision was about or that the person was warned of."""
    held_at: float = 0.0
    """When the person first saw the newest of the holds that they were warned of; 0 if there was none."""


class MadeTwice(msgspec.Struct, frozen=True):
    first: Record
    second: Record
    unheeded: tuple[Look, ...]
    """Approvals of the module after the cut that did not show the attempt."""

    @property
    def text(self) -> str:
        words = (
            f"{self.second.owner} made {self.second.module}/{self.second.resource} ({self.second.id}, knowing serial "
            f"{self.second.known_serial}) while {self.first.id} of {self.first.owner} exists, and nobody was asked"
        )
        if self.unheeded:
            words += (
                f"; approved without a word about {self.first.owner}: {', '.join(look.job for look in self.unheeded)}"
            )
        return words


def made_twice(
    witnesses: Iterable[Record],
    looks: Iterable[Look],
    exempt: frozenset[str] = frozenset(),
    set_backs: Sequence[SetBack] = (),
) -> Iterator[MadeTwice]:
    """Return everything that was created a second time without a decision. Modules that chose `interrupted: retry` are exempt."""
    by_module: dict[str, list[Record]] = defaultdict(list)
    for one in sorted(witnesses, key=lambda one: one.at):
        by_module[one.module].append(one)
    for module, records in by_module.items():
        if module not in exempt:
            yield from _in_module(records, [look for look in looks if look.module == module], set_backs)


def _in_module(records: list[Record], looks: list[Look], set_backs: Sequence[SetBack]) -> Iterator[MadeTwice]:
    last_sign = {one.owner: one.at for one in records}
    existing: dict[str, list[Record]] = defaultdict(list)
    for one in records:
        if one.what == "destroyed":
            existing[one.resource] = [other for other in existing[one.resource] if other.id != one.id]
        if one.what != "made":
            continue
        for other in list(existing[one.resource]):
            cut = last_sign[other.owner]
            since = [look for look in looks if cut < look.at < one.at]
            answered = [look for look in since if other.owner in look.shown]
            answered += [look for look in looks if look.at < one.at and _is_warned_of_set_back(look, other, set_backs)]
            if not any(_took_effect(look, one, records) for look in answered):
                unheeded = tuple(look for look in since if look.act == "approve" and other.owner not in look.shown)
                yield MadeTwice(other, one, unheeded)
                # One violation is enough for each thing: whatever is made after this one repeats the same fault.
                existing[one.resource] = [left for left in existing[one.resource] if left is not other]
        existing[one.resource].append(one)


def _is_warned_of_set_back(look: Look, first: Record, set_backs: Sequence[SetBack]) -> bool:
    """Whether the database was set back after a making, lost what became of it, and the person was warned of that."""
    return any(first.at < each.at < look.held_at and first.owner in each.attempts for each in set_backs)


def _took_effect(look: Look, second: Record, records: list[Record]) -> bool:
    """Whether a decision covers what was made: a plan that was approved but has not begun covers nothing."""
    if look.act == "discard":
        return True
    return any(one.job == look.job and look.at < one.at <= second.at for one in records)
