"""Failed logins and token exchanges in the audit: counted in memory and written as one entry for each kind, address and name
in a window, so that an attacker cannot fill the disk."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Literal, Protocol

import msgspec

from terracrew.logging import get_logger
from terracrew.server.addresses import limit_key
from terracrew.server.audit import service
from terracrew.server.db.seam import Database, Tx
from terracrew.server.principals.model import Principal

WINDOW_SECONDS = 60.0
MAX_ENTRIES_PER_WINDOW = 60
"""The most entries that one server writes in a window. Further failures are counted in one entry for each kind."""
MAX_REMEMBERED_USERS = 1000
OTHERS = "others"
_log = get_logger("terracrew.server.failures")

Action = Literal[
    "login.fail", "link.fail", "password.fail", "token_exchange.fail", "terminal_login.fail", "single_sign_on.fail"
]


class Failure(msgspec.Struct, frozen=True):
    action: Action
    address: str
    """The client's address. For IPv6 it is the /64 network, because one client has all of that."""
    target_kind: str
    target: str
    """The id of a user, service account or runner that exists. Empty for every other name: people type passwords there."""
    organization_id: str | None = None
    reason: str = ""
    """Why a token of another issuer was refused. Only the audit log says it."""


class _Count(msgspec.Struct):
    first_at: datetime
    last_at: datetime
    evaluated: int = 0
    limited: int = 0


class LoginUser(Protocol):
    """What the entry of a failed login says about the user."""

    @property
    def id(self) -> str: ...
    @property
    def organization_id(self) -> str: ...


class Failures:
    def __init__(self, db: Database, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._db, self._clock = db, clock
        self._counts: dict[Failure, _Count] = {}
        self._users: dict[str, tuple[str, str]] = {}

    def note(
        self,
        action: Action,
        address: str,
        target_kind: str = "",
        target: str = "",
        organization_id: str | None = None,
        *,
        is_limited: bool = False,
        reason: str = "",
    ) -> None:
        """Count one failure. `is_limited` means that a rate limit refused it unevaluated. This never waits and never raises."""
        failure = Failure(action, limit_key(address), target_kind, target, organization_id, reason)
        count = self._counts.get(failure)
        if count is None and len(self._counts) >= MAX_ENTRIES_PER_WINDOW:
            failure = Failure(action, OTHERS, "", "")
            count = self._counts.get(failure)
        now = self._clock()
        if count is None:
            count = self._counts[failure] = _Count(now, now)
            _log.warning(
                action, address=failure.address, target=failure.target
            )  # the entry has the number of the others
        count.last_at = now
        if is_limited:
            count.limited += 1
        else:
            count.evaluated += 1

    def note_login(self, address: str, name: str, user: LoginUser | None = None, *, is_limited: bool = False) -> None:
        """Count a failed login. The user of a name is remembered, so that a login that is limited needs no query."""
        if user is not None:
            if len(self._users) >= MAX_REMEMBERED_USERS:
                self._users.clear()
            self._users[name] = user.id, user.organization_id
        target, organization_id = self._users.get(name, ("", None))
        kind = "user" if target else ""
        self.note("login.fail", address, kind, target, organization_id, is_limited=is_limited)

    async def run(self) -> None:
        """Write entries at the end of each window; the last ones when the server stops."""
        try:
            while True:
                await asyncio.sleep(WINDOW_SECONDS)
                await self.step()
        finally:
            await self.step()

    async def step(self) -> int:
        """Write an entry for each kind of failure that was counted. Returns the number of entries."""
        if not self._counts:
            return 0
        counts, self._counts = self._counts, {}
        changes = [_change(failure, count) for failure, count in counts.items()]

        async def work(tx: Tx) -> None:
            await service.record_all(tx, changes)

        try:
            await self._db.write(work)
        except Exception:
            self._counts = counts | self._counts  # tried again with the next window
            raise
        for failure, count in counts.items():
            if (total := count.evaluated + count.limited) > 1:
                _log.warning(failure.action, address=failure.address, target=failure.target, count=total)
        return len(changes)


def _change(failure: Failure, count: _Count) -> service.Change:
    who = Principal("anonymous", "", "somebody who is not logged in", None, address=failure.address)
    details = {
        "count": count.evaluated + count.limited,
        "limited": count.limited,
        "first_at": count.first_at.isoformat(timespec="seconds"),
        "last_at": count.last_at.isoformat(timespec="seconds"),
    }
    if failure.reason:
        details["reason"] = failure.reason
    return service.Change(who, failure.action, failure.target_kind, failure.target, details, failure.organization_id)
