"""Does what is to be done about pull requests, each in turns of its own. Several servers may run it on one database."""

import asyncio
import contextlib
from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec.structs import replace

from terracrew import backoff
from terracrew.errors import NotFound, TerracrewError, Unavailable
from terracrew.forges.contract import ForgeAway, ForgeRefused
from terracrew.logging import get_logger
from terracrew.server.db.seam import Tx
from terracrew.server.forges import answers, contact
from terracrew.server.pull_requests import applying, commanding, decide, following, planning, reads, store
from terracrew.server.pull_requests.looking import MISSED_SECONDS, Looking
from terracrew.server.pull_requests.model import PullRequestSubject, TouchedModule
from terracrew.server.pull_requests.planning import LeaseLost
from terracrew.server.pull_requests.reads import NewPullRequest
from terracrew.server.pull_requests.showing import Showing
from terracrew.server.pull_requests.tools import PullRequestTools
from terracrew.server.supervise import FailedRows, renewing, wait_seconds
from terracrew.server.tree.modules import policy
from terracrew.server.tree.modules.policy import PullRequestRules

MAX_PER_STEP = 100
MAX_AT_ONCE = 8
LEASE_SECONDS = 20.0
"""If a server ends in the middle of its work, another one goes on after this time."""
RENEW_SECONDS = 5.0
SWEEP_SECONDS = 10.0
PAUSE_SECONDS = 0.2
"""Changes that come together are handled together."""
LOOK_SECONDS = 300.0
"""How often an open pull request is looked at without any reason: modules and their settings may have changed."""
APPROVAL_SECONDS = 30.0
"""How often approvals of the forge are asked for while a plan waits for one."""
MERGE_SECONDS = 60.0
"""How often the forge is asked again to merge what it has refused, for example because another check runs."""
FIRST_RETRY_SECONDS = 2.0
MAX_RETRY_SECONDS = 60.0
KEPT_SECONDS = 7 * 86400.0
"""How long the plans of a merged pull request can be applied by a command."""
log = get_logger("terracrew.pull_requests")


class PullRequests:
    def __init__(self, tools: PullRequestTools, showing: Showing | None = None) -> None:
        self._tools, self._db = tools, tools.db
        self._looking, self._showing = Looking(), showing or Showing()
        self._failed = FailedRows("pull requests")

    async def run(self) -> None:
        with self._db.listen("pull_requests", "forge_branches", "jobs", "states") as wakeups:
            while True:
                count = await self.step()
                if count < MAX_PER_STEP:
                    await wakeups.get(timeout=await self._db.read(_seconds_to_next))
                await asyncio.sleep(PAUSE_SECONDS)

    async def step(self) -> int:
        """Do what can be done now, and return for how many pull requests."""
        for each in await self._db.read_in_background(lambda tx: reads.new(tx, MAX_PER_STEP, MISSED_SECONDS)):
            await self._db.write(lambda tx, each=each: _begin(tx, each))
        found = await self._db.read_in_background(lambda tx: reads.due(tx, MAX_PER_STEP + len(self._failed)))
        return await self._failed.handle(found, self._turn, MAX_AT_ONCE)

    async def _turn(self, pull_request_id: str) -> None:
        holder = self._tools.server_id
        row = await self._db.write(lambda tx: store.claim(tx, pull_request_id, holder, LEASE_SECONDS))
        subject = None if row is None else await self._db.read(lambda tx: reads.subject(tx, row))
        if subject is None:
            return
        async with renewing(
            self._db, lambda tx: store.renew(tx, pull_request_id, holder, LEASE_SECONDS), RENEW_SECONDS
        ):
            try:
                wait = await self._work(subject)
                await self._db.write(lambda tx: _finish(tx, self._tools, subject, wait))
            except LeaseLost:
                return
            except TerracrewError as error:
                await self._put_off(subject, error)

    async def _work(self, subject: PullRequestSubject) -> float | None:
        """Do everything for a pull request, and return after how many seconds there is more to do; None if it has ended."""
        tools = self._tools
        if subject.is_open:
            subject = await planning.look(tools, self._looking, subject)
        rows = await following.follow(tools, subject)
        subject = await commanding.carry_out_comments(tools, subject, self._looking)
        subject = await planning.queue(tools, subject)
        if subject.facts.state == "merged":
            subject = await applying.after_merge(tools, self._looking, subject, rows)
        if subject.facts.state == "closed":
            await planning.end(tools, subject)
        rows = await following.follow(tools, subject)
        rules = await self._rules(rows)
        is_counting = await applying.count_approvals(tools, subject, rows, rules)
        shown = await self._showing.show(tools, subject, rows, rules)
        if not shown.wait_seconds and applying.is_to_merge(subject.with_row(shown.row), rows, rules):
            subject = await applying.merge(
                tools, subject.with_row(shown.row)
            )  # the status that it requires is shown by now
            shown = await self._showing.show(tools, subject, rows, rules)
        subject = subject.with_row(shown.row)
        if shown.wait_seconds:
            return shown.wait_seconds
        if subject.connection.merges and applying.is_to_merge(subject, rows, rules):
            return MERGE_SECONDS
        now = await self._db.read(_moment)
        return _next_look(subject, rows, rules, now, is_counting=is_counting)

    async def _rules(self, rows: Sequence[TouchedModule]) -> dict[str, PullRequestRules]:
        return await self._db.read(lambda tx: policy.pull_request_rules(tx, [each.module_id for each in rows]))

    async def _put_off(self, subject: PullRequestSubject, error: TerracrewError) -> None:
        """Try again later what failed. A forge that is away is left alone by all loops until it may be asked again."""
        is_away = isinstance(error, ForgeAway)
        if is_away:
            await contact.note_failure(self._db, subject.connection, error)
        elif isinstance(error, Unavailable | ForgeRefused):
            await self._ask_again(subject)
        log.info("a pull request is looked at again later", pull_request=subject.row.id, reason=error.message)

        async def work(tx: Tx) -> None:
            row = await planning.held(tx, self._tools, subject)
            seconds = min(FIRST_RETRY_SECONDS * 2 ** min(row.failures, 10), MAX_RETRY_SECONDS)
            at = tx.moment + timedelta(seconds=backoff.jittered(seconds, 0.2))
            failures = row.failures + (not is_away)
            is_given_up = not subject.is_open and tx.moment - subject.facts.changed_at > timedelta(seconds=KEPT_SECONDS)
            after = replace(
                row, due_at=at, failures=failures, is_active=not is_given_up, lease_holder=None, lease_until=None
            )
            await store.save(tx, after)

        with contextlib.suppress(LeaseLost):
            await self._db.write(work)

    async def _ask_again(self, subject: PullRequestSubject) -> None:
        """Ask the forge what the pull request is now: its commit may be one that was replaced since."""
        try:
            number = subject.facts.number
            await answers.refresh(self._db, self._tools.forges, subject.connection, subject.repository, number)
        except (ForgeAway, ForgeRefused, NotFound) as error:
            log.info("a pull request cannot be asked for", pull_request=subject.row.id, reason=error.message)


def _next_look(
    subject: PullRequestSubject,
    rows: Sequence[TouchedModule],
    rules: dict[str, PullRequestRules],
    now: datetime,
    *,
    is_counting: bool,
) -> float | None:
    if is_counting:
        return APPROVAL_SECONDS
    if subject.is_open:
        return LOOK_SECONDS
    if any(each.state in ("running", "applying", "needs_approval") for each in rows):
        return LOOK_SECONDS
    if now - subject.facts.changed_at > timedelta(seconds=KEPT_SECONDS):
        return None
    if subject.row.show_problem:
        return LOOK_SECONDS
    on_command = any(
        each.state == "changes" and rules.get(each.module_id, PullRequestRules()).apply.startswith("on_command")
        for each in rows
    )
    planned = any(each.state in decide.OPEN and each.plan_job_id is not None for each in rows)
    return LOOK_SECONDS if subject.facts.state == "merged" and (on_command or planned) else None


async def _begin(tx: Tx, new: NewPullRequest) -> None:
    await store.insert(tx, new.id, new.organization_id)
    row = await store.hold(tx, new.id)
    if row is None or row.is_active:
        return
    await store.save(tx, replace(row, is_active=True, seen_revision=0))
    if new.state == "open":  # again: its end has canceled plans
        canceled = [each for each in await store.modules_of(tx, row.id) if each.state == "canceled"]
        await store.save_modules(tx, [decide.plan_again(each, "waiting", "", tx.moment) for each in canceled])


async def _finish(tx: Tx, tools: PullRequestTools, subject: PullRequestSubject, wait: float | None) -> None:
    row = await planning.held(tx, tools, subject)
    is_over = wait is None
    due = None if wait is None else tx.moment + timedelta(seconds=wait)
    if row.due_at != subject.row.due_at:  # somebody has asked meanwhile
        due, is_over = row.due_at, False
    after = replace(
        row,
        is_active=not is_over,
        seen_revision=row.seen_revision if subject.is_open else subject.facts.revision,
        due_at=due,
        failures=0,
        lease_holder=None,
        lease_until=None,
    )
    await store.save(tx, after)


async def _seconds_to_next(tx: Tx) -> float:
    return wait_seconds(tx.now, await reads.next_due(tx), SWEEP_SECONDS)


async def _moment(tx: Tx) -> datetime:
    return tx.moment
