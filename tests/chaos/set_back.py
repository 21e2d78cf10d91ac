"""What a database lost when it was set back, by comparing both databases: the one that was lost and the one that replaced it."""

from collections.abc import Iterable, Mapping
from typing import Any, LiteralString

import msgspec

_JOBS: LiteralString = "SELECT id FROM jobs"
_ATTEMPTS: LiteralString = "SELECT job_id, number, begun_at, outcome, mark, hub_sha256 FROM attempts"
_STATES: LiteralString = "SELECT sha256 FROM states"
_BEGUN_WHILE_HELD: LiteralString = """
    SELECT DISTINCT attempts.job_id, attempts.number FROM attempts JOIN jobs ON jobs.id = attempts.job_id
    JOIN held_modules ON held_modules.module_id = jobs.module_id JOIN holds ON holds.id = held_modules.hold_id
    WHERE attempts.begun_at > holds.started_at
        AND (held_modules.released_at IS NULL OR attempts.begun_at < held_modules.released_at)"""


class Contents(msgspec.Struct, frozen=True):
    """What a database knows."""

    jobs: frozenset[str]
    attempts: Mapping[str, tuple[Any, ...]]
    """By `job.number`: when it began to change something, its outcome, how much of its log and results has arrived, and its key."""
    states: frozenset[str]
    """Their hashes."""


class SetBack(msgspec.Struct, frozen=True):
    """What became unknown at one moment."""

    at: float
    """When the database was replaced. No process of a server was connected to it at that moment."""
    jobs: frozenset[str]
    attempts: frozenset[str]
    """Attempts (`job.number`) of which anything was lost."""
    begun: frozenset[str]
    """Attempts whose permission to apply was lost."""
    states: frozenset[str]
    ended: frozenset[str] = frozenset()
    """Attempts that had ended, and that nothing is left of: their numbers may be given again."""
    keys: Mapping[str, str] = {}
    """The keys of attempts that nothing is left of."""


def read(connection: Any) -> Contents:
    """Read a database through a connection of SQLite or PostgreSQL, which nobody else uses."""

    def rows(statement: LiteralString) -> Iterable[tuple[Any, ...]]:
        return connection.execute(statement).fetchall()

    return Contents(
        frozenset(job for (job,) in rows(_JOBS)),
        {f"{job}.{number}": tuple(rest) for job, number, *rest in rows(_ATTEMPTS)},
        frozenset(sha256 for (sha256,) in rows(_STATES)),
    )


def begun_while_held(connection: Any) -> frozenset[str]:
    """Return the attempts that began to change a module which was held."""
    return frozenset(f"{job}.{number}" for job, number in connection.execute(_BEGUN_WHILE_HELD).fetchall())


def compare(at: float, lost: Contents, kept: Contents) -> SetBack:
    return SetBack(
        at,
        lost.jobs - kept.jobs,
        frozenset(owner for owner, row in lost.attempts.items() if kept.attempts.get(owner) != row),
        frozenset(owner for owner, row in lost.attempts.items() if row[0] and not _has_begun(kept, owner)),
        lost.states - kept.states,
        frozenset(owner for owner, row in lost.attempts.items() if row[1] and owner not in kept.attempts),
        {owner: row[-1] for owner, row in lost.attempts.items() if owner not in kept.attempts},
    )


def left_behind(set_backs: Iterable[SetBack], now: Contents) -> frozenset[str]:
    """Return the attempts whose numbers others have got since: what they deliver is refused, and stays with their runners (ADR 0071)."""
    lost = [(owner, key) for each in set_backs for owner, key in each.keys.items()]
    return frozenset(owner for owner, key in lost if owner in now.attempts and now.attempts[owner][-1] != key)


def _has_begun(contents: Contents, owner: str) -> bool:
    row = contents.attempts.get(owner)
    return row is not None and row[0] is not None
