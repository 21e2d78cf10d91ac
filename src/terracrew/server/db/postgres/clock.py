"""The database's time, without a query in every transaction and without the jumps of the clock of the database's host."""

from collections.abc import Callable
from typing import Any, Protocol

from terracrew.logging import get_logger
from terracrew.server.db.clock import SLEW_RATE, remaining, steady
from terracrew.server.db.clock_reads import CONTACT_SINCE, NEWEST

FRESH_SECONDS = 5.0
"""How long the local steady clock is used before the database is queried again."""
JUMP_SECONDS = 5.0
SETTLED_SECONDS = 600.0
"""The time after a correction in which no server corrects again, so that two that disagree do not take turns."""
_ASK = """SELECT extract(epoch FROM clock_timestamp())::double precision AS wall, clock.correction, clock.stored_at
FROM (SELECT 1) AS one LEFT JOIN clock ON clock.name = 'wall'"""
_ASK_PLAIN = (
    "SELECT extract(epoch FROM clock_timestamp())::double precision AS wall, NULL AS correction, NULL AS stored_at"
)
_CORRECT = """INSERT INTO clock (name, correction, stored_at) VALUES ('wall', $1, $2)
ON CONFLICT (name) DO UPDATE SET correction = excluded.correction, stored_at = excluded.stored_at
WHERE clock.correction = $3 AND clock.stored_at = $4 RETURNING name"""
log = get_logger("terracrew.db")


class _Asked(Protocol):
    async def fetchrow(self, query: str, /, *args: object) -> Any: ...
    async def fetchval(self, query: str, /, *args: object) -> Any: ...


class Clock:
    """A local steady clock, set by the database's time and set anew by the first transaction after five seconds.

    A reading is off by at most half of that question's round trip, and never by the local wall clock. When the clock of
    the database's host jumps, one server stores a correction, and all servers add it to what the database tells. The
    correction becomes smaller by itself, so that time only runs a little faster or slower.
    """

    def __init__(
        self,
        instead: Callable[[], float] | None = None,
        *,
        has_tables: bool = True,
        steady: Callable[[], float] = steady,
    ) -> None:
        self._instead = instead
        self._has_tables = has_tables
        self._steady = steady
        self._offset: float | None = None
        self._set_at = float("-inf")

    async def read(self, connection: _Asked, *, is_writer: bool = True) -> float:
        if self._instead is not None:
            return self._instead()
        asked, offset = self._steady(), self._offset
        if offset is None or asked - self._set_at > FRESH_SECONDS:
            row: Any = await connection.fetchrow(_ASK if self._has_tables else _ASK_PLAIN)
            answered = self._steady()
            if offset is not None and answered - asked > JUMP_SECONDS / 2:
                return answered + offset  # the answer took so long that it is unknown when it was valid
            at = (asked + answered) / 2
            correction, stored_at = row["correction"] or 0.0, row["stored_at"] or 0.0
            wall: float = row["wall"]
            time = wall + remaining(correction, stored_at, wall)
            expected = time if offset is None else at + offset
            if offset is None and self._has_tables:
                expected = max(time, await connection.fetchval(NEWEST) or 0.0)  # it was set back while no server ran
            drift = SLEW_RATE * max(0.0, at - self._set_at) if self._set_at > 0 else 0.0
            if abs(time - expected) > JUMP_SECONDS + drift and not await self._is_to_follow(connection, row, expected):
                # A reader's connection cannot store anything: until a writer does, the steady clock is right.
                if is_writer and await connection.fetchval(_CORRECT, expected - wall, wall, correction, stored_at):
                    log.warning("the clock of the database's host jumped", seconds=round(time - expected, 1))
                    self._set_at = at
                time = expected
            else:
                self._set_at = at
            offset = self._offset = time - at
        return self._steady() + offset

    async def _is_to_follow(self, connection: _Asked, row: Any, expected: float) -> bool:
        """Return whether it is this process that missed time, and not the database's host whose clock was set."""
        if row["stored_at"] is not None and 0 <= row["wall"] - row["stored_at"] < SETTLED_SECONDS:
            return True
        # Another server has recorded contact at a later time, so the machine of this process was suspended in between.
        return row["wall"] > expected and await connection.fetchval(CONTACT_SINCE, expected + JUMP_SECONDS) is not None
