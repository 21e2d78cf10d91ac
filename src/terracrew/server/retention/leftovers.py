"""Removes rows that are no longer needed. The server that holds the lease does this once an hour, in small batches.

Logs, plans, archives, states and the audit have retention of their own; this loop does not touch them.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from terracrew import backoff
from terracrew.logging import get_logger
from terracrew.server.db import lease
from terracrew.server.db.seam import Database, Tx
from terracrew.server.fleet_jobs import store as fleet_jobs
from terracrew.server.identity.access import credential_store as credentials
from terracrew.server.identity.access import store as access
from terracrew.server.identity.federation import store as federation
from terracrew.server.identity.people import store as people
from terracrew.server.identity.sso import store as sso
from terracrew.server.identity.terminal_logins import store as terminal_logins
from terracrew.server.jobs import store as jobs
from terracrew.server.releases import store as release_tokens
from terracrew.server.retention.policy import DAY_SECONDS
from terracrew.server.runners import service as runners
from terracrew.server.runners.alerts import store as runner_alerts
from terracrew.server.runners.once_tokens import store as once_tokens
from terracrew.server.runners.starts import store as starts

INTERVAL_SECONDS = 3600.0
BATCH_ROWS = 500
"""The most rows that one transaction removes. With SQLite, all other writers wait for it."""
PAUSE_SECONDS = 0.1
"""The pause between two batches."""
LEASE = "leftovers"
Prune: TypeAlias = Callable[[Tx, float, int], Awaitable[int]]
log = get_logger("terracrew.server")


class LeftoverRule(msgspec.Struct, frozen=True):
    name: str
    prune: Prune
    """Removes up to this many rows that were left behind before a time, and returns how many."""
    is_kept_for_days: bool = True
    """Whether rows are kept for the configured number of days. Otherwise they are removed at once."""


RULES = (
    LeftoverRule("sessions", people.prune_sessions, is_kept_for_days=False),
    LeftoverRule("one-time links", people.prune_links, is_kept_for_days=False),
    LeftoverRule("logins at terminals", terminal_logins.prune),
    LeftoverRule("logins of machines without a browser", terminal_logins.prune_devices),
    LeftoverRule("used states of single sign-on", sso.prune_used, is_kept_for_days=False),
    LeftoverRule("API tokens", people.prune_tokens),
    LeftoverRule("service account secrets", access.prune_secrets),
    LeftoverRule("replaced worker tokens", credentials.prune_ended_tokens),
    LeftoverRule("once tokens", once_tokens.prune),
    LeftoverRule("release tokens", release_tokens.prune),
    LeftoverRule("trust policies", federation.prune_policies),
    LeftoverRule("exchanged tokens", federation.prune_exchanged, is_kept_for_days=False),
    LeftoverRule("instances", runners.prune_instances),
    LeftoverRule("alerts about runners", runner_alerts.delete_old),
    LeftoverRule("names of removed runners", runners.prune_names),
    LeftoverRule("fleet jobs", fleet_jobs.delete_ended),
    LeftoverRule("starts of attempts", starts.prune, is_kept_for_days=False),
    LeftoverRule("idempotency keys", jobs.prune_idempotency_keys),
)


class Leftovers:
    def __init__(self, db: Database, server_id: str, days: float) -> None:
        self._db = db
        self._server_id = server_id
        self._days = days

    async def run(self) -> None:
        while True:
            await asyncio.sleep(backoff.jittered(INTERVAL_SECONDS, 0.2))
            await self.step()

    async def step(self) -> dict[str, int]:
        """Make one pass. Returns how many rows of each kind were removed; empty if another server holds the lease."""
        if not await lease.acquire(self._db, LEASE, self._server_id, INTERVAL_SECONDS):
            return {}
        removed = {rule.name: count for rule in RULES if (count := await self._all_of(rule))}
        if removed:
            log.info("rows that nobody needs any more are removed", **removed)
        return removed

    async def _all_of(self, rule: LeftoverRule) -> int:
        days = self._days if rule.is_kept_for_days else 0.0
        count = 0
        while True:
            batch = await self._db.write(lambda tx: rule.prune(tx, tx.now - days * DAY_SECONDS, BATCH_ROWS))
            count += batch
            if batch < BATCH_ROWS:
                return count
            await asyncio.sleep(PAUSE_SECONDS)
