"""Looks at the repositories of rules when their branches move, and makes modules. Several servers may run it on one database."""

import asyncio
import contextlib
from datetime import timedelta

from msgspec.structs import replace

from terracrew import backoff
from terracrew.errors import TerracrewError, Unavailable
from terracrew.forges.contract import ForgeAway
from terracrew.logging import get_logger
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import looking, making, reads, store
from terracrew.server.discovery.looking import NotKnownYet, RuleRepository
from terracrew.server.discovery.making import RuleTaken
from terracrew.server.discovery.model import DiscoveryRule
from terracrew.server.discovery.tools import DiscoveryTools
from terracrew.server.forges import contact
from terracrew.server.supervise import FailedRows, renewing, wait_seconds

MAX_PER_STEP = 20
MAX_AT_ONCE = 2
LEASE_SECONDS = 30.0
"""If a server ends in the middle of its work, another one goes on after this time."""
RENEW_SECONDS = 8.0
SWEEP_SECONDS = 30.0
PAUSE_SECONDS = 0.2
BRANCH_SECONDS = 60.0
"""How often a branch is looked at that is not the default branch, which the forge is asked about anyway."""
LOOK_SECONDS = 300.0
"""How often a rule is looked at without any reason: what was in the way may be gone."""
FIRST_RETRY_SECONDS = 2.0
MAX_RETRY_SECONDS = 120.0
MAX_PASSING_FAILURES = 3
"""How often something may fail that may pass by itself, before people see it."""
EXPECTED_SECONDS = 1.0
MAX_EXPECTED_FAILURES = 15
"""How often it is tried soon whether the forge was asked about a new repository."""
log = get_logger("terracrew.discovery")


class Discovery:
    def __init__(self, tools: DiscoveryTools) -> None:
        self._tools, self._db = tools, tools.db
        self._failed = FailedRows("discovery")

    async def run(self) -> None:
        with self._db.listen("discovery", "forge_branches", "forges") as wakeups:
            while True:
                if await self.step() < MAX_PER_STEP:
                    await wakeups.get(timeout=await self._db.read(_seconds_to_next))
                await asyncio.sleep(PAUSE_SECONDS)

    async def step(self) -> int:
        """Look at the rules whose turn has come, and return how many."""
        found = await self._db.read_in_background(lambda tx: reads.due(tx, MAX_PER_STEP + len(self._failed)))
        return await self._failed.handle(found, self._turn, MAX_AT_ONCE)

    async def _turn(self, rule_id: str) -> None:
        holder = self._tools.server_id
        rule = await self._db.write(lambda tx: store.claim(tx, rule_id, holder, LEASE_SECONDS))
        if rule is None:
            return
        async with renewing(self._db, lambda tx: store.renew(tx, rule_id, holder, LEASE_SECONDS), RENEW_SECONDS):
            try:
                await self._work(rule)
            except RuleTaken:
                await self._give_back(rule)
            except TerracrewError as error:
                await self._put_off(rule, error)

    async def _work(self, rule: DiscoveryRule) -> None:
        tools = self._tools
        at = await self._db.read(lambda tx: looking.repository_of(tx, rule))
        found = await looking.look(tools, rule, at)
        plan = await self._db.read_in_background(lambda tx: looking.planned(tx, rule, found))
        plan = await making.carry_out(tools, rule, found, plan)
        await making.mark(tools, rule, found)

        async def finish(tx: Tx) -> None:
            seconds = LOOK_SECONDS if found.branch == at.repository.default_branch else BRANCH_SECONDS
            after = replace(
                _seen(rule, at),
                commit_id=found.commit_id,
                looked_at=tx.moment,
                problem=plan.problem,
                due_at=tx.moment + timedelta(seconds=seconds),
                failures=0,
            )
            await making.finish(tx, tools, rule, after, plan)

        await self._db.write(finish)

    async def _give_back(self, rule: DiscoveryRule) -> None:
        """Let a rule that was changed meanwhile be looked at again at once. One that another server has is left alone."""

        async def work(tx: Tx) -> None:
            row = await store.hold(tx, rule.id)
            if row is not None and row.lease_holder == self._tools.server_id:
                await store.save_look(tx, replace(row, due_at=tx.moment, lease_holder=None, lease_until=None))

        await self._db.write(work)

    async def _put_off(self, rule: DiscoveryRule, error: TerracrewError) -> None:
        """Write why nothing was found, for people to see, and try again later."""
        at: RuleRepository | None = None
        with contextlib.suppress(TerracrewError):
            at = await self._db.read(lambda tx: looking.repository_of(tx, rule))
        if isinstance(error, ForgeAway) and at is not None:
            await contact.note_failure(self._db, at.connection, error)
        log.info("a discovery rule is looked at again later", rule=rule.id, reason=error.message)

        async def work(tx: Tx) -> None:
            row = await making.held(tx, self._tools, rule)
            doubled = min(FIRST_RETRY_SECONDS * 2 ** min(row.failures, 10), MAX_RETRY_SECONDS)
            is_expected = isinstance(error, NotKnownYet) and row.failures < MAX_EXPECTED_FAILURES
            seconds = EXPECTED_SECONDS if is_expected else doubled
            due_at = tx.moment + timedelta(seconds=backoff.jittered(seconds, 0.2))
            is_passing = is_expected or (isinstance(error, Unavailable) and row.failures < MAX_PASSING_FAILURES)
            problem = row.problem if is_passing else error.message
            after = replace(
                _seen(row, at),
                problem=problem,
                due_at=due_at,
                failures=row.failures + 1,
                lease_holder=None,
                lease_until=None,
            )
            await store.save_look(tx, after)
            if after.problem != row.problem:
                tx.wake("discovery", rule.id)

        with contextlib.suppress(RuleTaken):
            await self._db.write(work)


def _seen(rule: DiscoveryRule, at: RuleRepository | None) -> DiscoveryRule:
    """Return a rule with the repository that was looked at."""
    if at is None:
        return replace(rule, repository_id=None)
    return replace(rule, repository_id=at.repository.id, seen_default=at.repository.default_commit)


async def _seconds_to_next(tx: Tx) -> float:
    return wait_seconds(tx.now, await reads.next_due(tx), SWEEP_SECONDS)
