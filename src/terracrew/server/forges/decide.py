"""Decides what an answer of a forge changes. Answers may arrive in another order than that in which the forge was asked.

Each question about a repository has a number, which is taken before the forge is asked. An answer replaces only what an older
question has told. So the facts never go back: what a late answer would have told is asked for again by the next poll.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from terracrew import ids
from terracrew.forges.model import PullRequest
from terracrew.server.forges.model import FACTS, ForgePullRequest, facts_of

_NOT_COMPARED = {"updated_at"}
"""Every comment changes this time, also one that we write ourselves, and no decision follows from it."""


class FactChange(msgspec.Struct, frozen=True):
    """What an answer changes of one pull request."""

    after: ForgePullRequest
    is_new: bool
    is_changed: bool
    """Whether people and plans are concerned: the facts differ, and the revision has increased."""


def changes(
    repository_id: str,
    stored: Mapping[int, ForgePullRequest],
    answers: Iterable[PullRequest],
    question: int,
    now: datetime,
) -> list[FactChange]:
    """Return what has to be written. `stored` has the pull requests that are known, by their numbers."""
    found: list[FactChange] = []
    for answer in answers:
        before = stored.get(answer.number)
        if before is None:
            values = {name: getattr(answer, name) for name in FACTS}
            made = ForgePullRequest(
                **values,
                id=ids.new("prq"),
                repository_id=repository_id,
                revision=1,
                question=question,
                first_seen_at=now,
                changed_at=now,
            )
            found.append(FactChange(made, is_new=True, is_changed=True))
        elif question > before.question:
            found.append(_replaced(before, answer, question, now))
    return found


def is_same(one: PullRequest, other: PullRequest) -> bool:
    """Return whether two answers tell the same facts."""
    return all(getattr(one, name) == getattr(other, name) for name in FACTS if name not in _NOT_COMPARED)


def vanished(
    open_ones: Iterable[ForgePullRequest], listed: Iterable[PullRequest], question: int
) -> list[ForgePullRequest]:
    """Return the pull requests that are known as open and are missing in a list of all open ones: merged, closed or deleted."""
    numbers = {each.number for each in listed}
    return [each for each in open_ones if each.number not in numbers and each.question < question]


def _replaced(before: ForgePullRequest, answer: PullRequest, question: int, now: datetime) -> FactChange:
    is_changed = not is_same(facts_of(before), answer)
    after = msgspec.structs.replace(
        before,
        **{name: getattr(answer, name) for name in FACTS},
        question=question,
        revision=before.revision + is_changed,
        changed_at=now if is_changed else before.changed_at,
    )
    return FactChange(after, is_new=False, is_changed=is_changed)
