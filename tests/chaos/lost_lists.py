"""What a person is told about a change that was cut short: all that it made and no state has, or that the list may be incomplete.

The witnesses say what exists. The person writes down what the list and the state had when they decided about a doubt.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from tests.chaos.set_back import SetBack
from tests.chaos.witness import Record


class ShownList(msgspec.Struct, frozen=True):
    """The list of lost resources of one attempt, as a person saw it."""

    at: float
    """When the person began to look. No process of the attempt was left by then."""
    owner: str
    """The attempt (`job.number`)."""
    is_complete: bool
    ids: frozenset[str]
    """The ids of what is listed."""
    names: frozenset[str]
    """The names of what is listed without an id."""
    in_state: frozenset[str]
    """The ids of what the current state of the module has."""


class Unlisted(msgspec.Struct, frozen=True):
    shown: ShownList
    things: tuple[Record, ...]

    @property
    def text(self) -> str:
        names = ", ".join(f"{one.module}/{one.resource} ({one.id})" for one in self.things[:5])
        return f"the list of {self.shown.owner} claims to be complete and does not have {names}"


def shown(at: float, owner: str, pages: Iterable[dict[str, Any]], state: dict[str, Any]) -> ShownList:
    found = list(pages)
    number = int(owner.rpartition(".")[2])
    items = [each for page in found for each in page["items"] if each["attempt"] == number]
    is_complete = not any(gap["attempt"] == number for gap in found[0]["gaps"])
    instances: list[dict[str, Any]] = [one for each in state.get("resources") or () for one in each["instances"]]
    return ShownList(
        at,
        owner,
        is_complete,
        frozenset(each["id"] for each in items if each["id"]),
        frozenset(_name(each["address"]) for each in items if not each["id"]),
        frozenset(str(one["attributes"]["id"]) for one in instances if "id" in (one.get("attributes") or {})),
    )


def unlisted(
    witnesses: Iterable[Record], lists: Iterable[ShownList], set_backs: Sequence[SetBack] = ()
) -> Iterator[Unlisted]:
    """Return each list that claims to be complete, and does not have a thing that exists and is in no state.

    What an attempt made that the database has forgotten is in no list: another attempt may have its number since.
    """
    records = sorted(witnesses, key=lambda one: one.at)
    for each in lists:
        before = [one for one in records if one.at < each.at]
        destroyed = {one.id for one in before if one.what == "destroyed"}
        known = destroyed | each.ids | each.in_state
        missing = [
            one
            for one in before
            if one.what == "made"
            and one.owner == each.owner
            and one.id not in known
            and one.resource not in each.names
            and not any(one.at < back.at < each.at and one.owner in back.ended for back in set_backs)
        ]
        if missing and each.is_complete:
            yield Unlisted(each, tuple(missing))


def _name(address: str) -> str:
    """Return the name that a thing has in the witnesses: `part-1` for `terraform_data.part[1]`."""
    return address.rpartition(".")[2].replace("[", "-").removesuffix("]")
