"""Asks the forges about each watched repository regularly, so that what no hook has delivered is found all the same."""

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from terracrew import backoff
from terracrew.errors import TerracrewError
from terracrew.forges.contract import Forge, ForgeAway, ForgeRefused
from terracrew.forges.model import BranchHead, Comment, PullRequest, PullRequestPage, Repository
from terracrew.logging import get_logger
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import answers, contact, merge_queue, repository_store, store
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.hooks import HookLook, look_at_hook
from terracrew.server.forges.model import ForgeConnection, ForgePullRequest, ForgeRepository
from terracrew.server.supervise import FailedRows

MAX_AT_ONCE = 16
"""How many repositories a server asks about at the same time."""
MAX_PER_STEP = 64
LEASE_SECONDS = 30.0
"""The lease is renewed while a server asks. If it ends in the middle, another one asks after this time."""
CHECK_SECONDS = 3600.0
"""How often the name and the hook of a repository are looked at."""
COMMENTS_SECONDS = 300.0
"""How often comments and merge queues are asked for while no open pull request changes: one can be written on a pull request that
is merged."""
DELIVERED_COMMENTS_SECONDS = 3600.0
"""The same where hooks deliver. No tag makes this question free, and forges count those that are not."""
DELIVERS_SECONDS = 86400.0
"""For how long after the last delivery the hooks of a connection count as delivering."""
COMMENTS_MARGIN = timedelta(seconds=120)
REFUSED_SECONDS = 600.0
"""How often a repository is asked about that the forge refuses to tell anything of."""
MAX_VANISHED = 20
"""After how many pull requests one poll asks that are not in the list any more. The next poll asks after the others."""
IDLE_SECONDS = 30.0
PAUSE_SECONDS = 0.5
"""Repositories whose turns come within this time are polled together, because it costs something to find out whose turn it is."""
log = get_logger("terracrew.forges")


class _Answers(msgspec.Struct, frozen=True, kw_only=True):
    """What the forge has answered in one poll."""

    details: Repository | None
    hook: HookLook | None
    page: PullRequestPage
    head: BranchHead
    comments: list[Comment] | None
    """None if they were not asked for."""

    def changes_nothing_of(self, repository: ForgeRepository) -> bool:
        """Return whether everything is as it was when the repository was claimed."""
        is_same_head = (
            self.head.commit in (None, repository.default_commit) and self.head.etag == repository.branch_etag
        )
        was_good = not repository.problem and not repository.failures
        is_asked_only_for_news = self.details is None and self.comments is None
        return was_good and is_asked_only_for_news and self.page.items is None and is_same_head


class ForgePolling:
    """The loop of each server. A repository is polled by the server that has its lease."""

    def __init__(self, db: Database, forges: Forges, server_id: str, seconds: float, hooks_url: str) -> None:
        """`hooks_url` is where the forges deliver to, without the id of the connection."""
        self._db, self._forges, self._server_id = db, forges, server_id
        self._seconds, self._hooks_url = seconds, hooks_url
        self._failed = FailedRows("forge polling")

    async def run(self) -> None:
        with self._db.listen("forges") as wakeups:
            while True:
                if await self.step() >= MAX_PER_STEP:
                    continue
                seconds = await self._db.read(_seconds_to_next)
                await wakeups.get(timeout=min(max(seconds, PAUSE_SECONDS), IDLE_SECONDS))

    async def step(self) -> int:
        """Poll the repositories whose turn has come, and return how many."""
        if not await self._db.read(repository_store.has_due):
            return 0
        due = await self._db.write(
            lambda tx: repository_store.claim_due(tx, self._server_id, LEASE_SECONDS, MAX_PER_STEP)
        )
        connections, asked_at = await self._db.read(lambda tx: _connections(tx, due))
        self._failed.due([each.id for each in due])
        async with asyncio.TaskGroup() as tasks:
            renewing = tasks.create_task(self._renew_leases([each.id for each in due]))
            await self._poll_all(connections, due, asked_at)
            renewing.cancel()
        return len(due)

    async def _poll_all(
        self, connections: Mapping[str, ForgeConnection], due: Sequence[ForgeRepository], asked_at: datetime
    ) -> None:
        turns = asyncio.Semaphore(MAX_AT_ONCE)
        failed: dict[str, TerracrewError] = {}
        unchanged: list[ForgeRepository] = []

        async def poll(connection: ForgeConnection, repository: ForgeRepository) -> None:
            async with turns:
                with self._failed.handling(repository.id):
                    if await self._poll(connection, repository, asked_at, failed):
                        unchanged.append(repository)

        async with asyncio.TaskGroup() as tasks:
            for each in due:
                if each.connection_id in connections:
                    tasks.create_task(poll(connections[each.connection_id], each))
        if unchanged:
            await self._db.write(lambda tx: self._save_unchanged(tx, connections, unchanged))

    async def _poll(
        self,
        connection: ForgeConnection,
        repository: ForgeRepository,
        asked_at: datetime,
        failed: dict[str, TerracrewError],
    ) -> bool:
        """Poll a repository, and return whether nothing has changed, which is written for all of a step together.

        `failed` has the connections that could not be asked in this step: one that is away is asked once.
        """
        if (known := failed.get(connection.id)) is not None:
            await self._db.write(lambda tx: self._save_failure(tx, connection, repository, known, is_first=False))
            return False
        try:
            forge = self._forges.of(connection)
            found = await self._ask(forge, connection, repository, asked_at)
        except TerracrewError as error:
            if contact.is_of_connection(error):
                failed[connection.id] = error
            await self._db.write(lambda tx, of=error: self._save_failure(tx, connection, repository, of))
            return False
        if found.changes_nothing_of(repository):
            return True
        gone = await self._db.write(lambda tx: self._save(tx, connection, repository, found, asked_at))
        for each in gone[:MAX_VANISHED]:
            await self._ask_after(connection, repository, each)
        return False

    async def _renew_leases(self, repository_ids: Sequence[str]) -> None:
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            await self._db.write(
                lambda tx: repository_store.renew_leases(tx, self._server_id, repository_ids, LEASE_SECONDS)
            )

    async def _ask(
        self, forge: Forge, connection: ForgeConnection, repository: ForgeRepository, now: datetime
    ) -> _Answers:
        details, hook = None, None
        known = repository
        if known.checked_at is None or now - known.checked_at > timedelta(seconds=CHECK_SECONDS):
            details = await forge.repository(known.name)
            known = replace(known, name=details.name, default_branch=details.default_branch)
            hook = await look_at_hook(forge, connection, known, self._hooks_url, self._forges)
        is_same_branch = known.default_branch == repository.default_branch
        page = await forge.open_pull_requests(known.name, repository.etag)
        head = await forge.branch(known.name, known.default_branch, repository.branch_etag if is_same_branch else "")
        last = repository.comments_asked_at
        is_due = last is None or now - last > _comments_pause(connection, repository, now)
        comments = None
        if forge.limits.has_pull_requests and (page.items is not None or is_due):
            comments = await forge.comments(known.name, repository.comments_since)
        if is_due:
            with contextlib.suppress(ForgeRefused):  # the test of the connection says what the token may not do
                await merge_queue.let_through(forge, known.name)
        return _Answers(details=details, hook=hook, page=page, head=head, comments=comments)

    async def _save(
        self,
        tx: Tx,
        connection: ForgeConnection,
        repository: ForgeRepository,
        found: _Answers,
        asked_at: datetime,
    ) -> list[ForgePullRequest]:
        """Write what the forge has answered, and return the pull requests that are not open any more."""
        before = await repository_store.hold(tx, repository.id)
        if before is None or before.lease_holder != self._server_id:
            return []  # it took too long, and another server has asked meanwhile
        await contact.good(tx, connection)
        gone = await answers.save_list(tx, before, found.page.items, repository.question)
        after = answers.with_head(before, found.head, repository.question, tx.moment)
        after = replace(
            after,
            etag=await answers.usable_tag(tx, before, found.page, repository.question),
            list_question=max(before.list_question, repository.question),
            polled_at=tx.moment,
            poll_at=tx.moment + self._pause(),
            lease_holder=None,
            lease_until=None,
            problem="",
            failures=0,
        )
        if found.details is not None:
            after = _with_details(after, found.details, found.hook, tx.moment)
        if found.comments is not None:
            await answers.save_comments(tx, before.id, found.comments)
            since = _newest(before.comments_since, found.page.items or [], found.comments)
            after = replace(after, comments_since=since, comments_asked_at=asked_at)
        await repository_store.save(tx, before, after)
        if after.default_commit != before.default_commit:
            tx.wake("forge_branches", before.id)
        if answers.is_shown_differently(before, after):
            tx.wake("forges", connection.id)
        return gone

    async def _save_unchanged(
        self, tx: Tx, connections: Mapping[str, ForgeConnection], repositories: Sequence[ForgeRepository]
    ) -> None:
        """Hold the repositories before their connections, as everything else does that writes an answer."""
        polled = [(each, tx.moment + self._pause()) for each in repositories]
        await repository_store.save_unchanged(tx, self._server_id, polled)
        for connection_id in sorted({each.connection_id for each in repositories}):
            await contact.good(tx, connections[connection_id])

    async def _save_failure(
        self,
        tx: Tx,
        connection: ForgeConnection,
        repository: ForgeRepository,
        error: TerracrewError,
        *,
        is_first: bool = True,
    ) -> None:
        before = await repository_store.hold(tx, repository.id)
        if before is None or before.lease_holder != self._server_id:
            return
        is_of_connection = contact.is_of_connection(error)
        if not is_of_connection:
            await contact.good(tx, connection)
        elif is_first:
            await contact.failed(tx, connection, error)
        pause = timedelta() if is_of_connection else timedelta(seconds=backoff.jittered(REFUSED_SECONDS, 0.1))
        after = replace(
            before,
            poll_at=tx.moment + max(pause, self._pause()),
            lease_holder=None,
            lease_until=None,
            problem=before.problem if is_of_connection else error.message,
            failures=before.failures + 1,
        )
        await repository_store.save(tx, before, after)
        if after.problem != before.problem:
            tx.wake("forges", connection.id)

    def _pause(self) -> timedelta:
        """Return when a repository is polled again: at the latest after the time of the settings."""
        return timedelta(seconds=self._seconds - backoff.below(self._seconds / 5))

    async def _ask_after(
        self, connection: ForgeConnection, repository: ForgeRepository, gone: ForgePullRequest
    ) -> None:
        """Ask what has become of a pull request that is not in the list of open ones any more."""
        try:
            await answers.refresh(self._db, self._forges, connection, repository, gone.number)
        except ForgeAway as error:
            await contact.note_failure(self._db, connection, error)
        except ForgeRefused as error:
            log.info("a pull request cannot be asked for", pull_request=gone.id, reason=error.message)


def _with_details(
    repository: ForgeRepository, details: Repository, hook: HookLook | None, now: datetime
) -> ForgeRepository:
    found = replace(
        repository,
        name=details.name,
        clone_url=details.clone_url,
        url=details.url,
        default_branch=details.default_branch,
        checked_at=now,
    )
    if hook is None:
        return found
    return replace(found, hook_id=hook.hook_id, hook_status=hook.status, hook_message=hook.message)


def _newest(since: datetime, items: Sequence[PullRequest], comments: Sequence[Comment]) -> datetime:
    """Return from when on comments are asked for next, by the clock of the forge: its own times say how late it is there."""
    times = [each.updated_at for each in items if each.updated_at] + [each.created_at for each in comments]
    return max([since, *(each - COMMENTS_MARGIN for each in times)])


def _comments_pause(connection: ForgeConnection, repository: ForgeRepository, now: datetime) -> timedelta:
    delivered_at = connection.delivered_at if repository.hook_status == "enabled" else None
    delivers = delivered_at is not None and now - delivered_at < timedelta(seconds=DELIVERS_SECONDS)
    return timedelta(seconds=DELIVERED_COMMENTS_SECONDS if delivers else COMMENTS_SECONDS)


async def _connections(tx: Tx, due: Sequence[ForgeRepository]) -> tuple[dict[str, ForgeConnection], datetime]:
    """Return the connections of repositories, and the time before anything is asked."""
    return await store.get_many(tx, *(each.connection_id for each in due)), tx.moment


async def _seconds_to_next(tx: Tx) -> float:
    at = await repository_store.next_poll(tx)
    return IDLE_SECONDS if at is None else at - tx.now
