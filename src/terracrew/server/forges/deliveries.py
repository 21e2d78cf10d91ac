"""Handles what forges have delivered: asks for the facts that a delivery is a reason to ask for, and writes them.

Deliveries that wait are handled together, so that ten about one pull request cost one question.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime, timedelta

from terracrew import backoff
from terracrew.errors import TerracrewError
from terracrew.forges.contract import ForgeAway
from terracrew.forges.model import BranchMoved, CommentWritten, ForgeEvent, PullRequestChanged
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import answers, contact, delivery_store, merge_queue, repository_store, store
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.model import ForgeConnection, ForgeDelivery, ForgeRepository
from terracrew.server.supervise import FailedRows

MAX_PER_STEP = 200
MAX_AT_ONCE = 8
LEASE_SECONDS = 30.0
"""If a server ends in the middle of handling a delivery, another one takes it after this time."""
RETRY_SECONDS = 5.0
MAX_RETRY_SECONDS = 300.0
MAX_TRIES = 20
"""Afterwards polling is relied upon alone."""
SWEEP_SECONDS = 30.0
KEPT_SECONDS = 7 * 86400.0
PRUNE_SECONDS = 600.0
MAX_KEPT = 20_000
"""How many deliveries of a connection are kept, whenever they came."""
MAX_PRUNED = 10_000
COMMENTS_MARGIN = timedelta(seconds=60)
OnTags = Callable[[Tx, ForgeConnection, ForgeRepository], Awaitable[None]]
"""Is told that tags of a repository were pushed."""


class ForgeDeliveries:
    """The loop of each server. A delivery is claimed by one server for a while."""

    def __init__(self, db: Database, forges: Forges, on_tags: OnTags) -> None:
        self._db, self._forges, self._on_tags = db, forges, on_tags
        self._failed = FailedRows("forge deliveries")
        self._pruned_at = 0.0

    async def run(self) -> None:
        with self._db.listen("forge_deliveries") as wakeups:
            while True:
                is_full = await self.step() >= MAX_PER_STEP
                if is_full:
                    continue
                await self.prune()
                seconds = await self._db.read(_seconds_to_next)
                await wakeups.get(timeout=min(max(seconds, 0.2), SWEEP_SECONDS))

    async def step(self) -> int:
        """Handle the deliveries whose turn has come, and return how many."""
        if await self._db.read(_seconds_to_next) > 0:
            return 0
        claimed = await self._db.write(lambda tx: delivery_store.claim_due(tx, LEASE_SECONDS, MAX_PER_STEP))
        by_connection: dict[str, list[ForgeDelivery]] = defaultdict(list)
        for each in claimed:
            by_connection[each.connection_id].append(each)
        connections = await self._db.read(lambda tx: store.get_many(tx, *by_connection))
        self._failed.due(list(by_connection))
        turns = asyncio.Semaphore(MAX_AT_ONCE)

        async def handle(connection: ForgeConnection, deliveries: Sequence[ForgeDelivery]) -> None:
            async with turns:
                with self._failed.handling(connection.id):
                    await self._of_connection(connection, deliveries)

        async with asyncio.TaskGroup() as tasks:
            for connection_id, deliveries in by_connection.items():
                if connection_id in connections:
                    tasks.create_task(handle(connections[connection_id], deliveries))
        return len(claimed)

    async def prune(self) -> None:
        """Delete deliveries that were handled a week ago, and the oldest ones of connections that have very many."""

        async def work(tx: Tx) -> float:
            if tx.now > self._pruned_at + PRUNE_SECONDS:
                await delivery_store.prune(tx, tx.now - KEPT_SECONDS, MAX_PRUNED)
                await delivery_store.prune_crowded(tx, MAX_KEPT, MAX_PRUNED)
            return tx.now

        if await self._db.read(_now) > self._pruned_at + PRUNE_SECONDS:
            self._pruned_at = await self._db.write(work)

    async def _of_connection(self, connection: ForgeConnection, deliveries: Sequence[ForgeDelivery]) -> None:
        """Handle deliveries by what they are about: each repository, pull request and branch is asked for once."""
        reasons: dict[tuple[str, int], list[ForgeDelivery]] = defaultdict(list)
        comments: dict[tuple[str, int], datetime] = {}
        branches: dict[tuple[str, int], set[str]] = defaultdict(set)
        tagged: set[tuple[str, int]] = set()
        for delivery in deliveries:
            for event in delivery.events:
                topic = _topic(event)
                reasons[topic].append(delivery)
                if isinstance(event, BranchMoved) and event.is_tag:
                    tagged.add(topic)
                elif isinstance(event, BranchMoved):
                    branches[topic].add(event.branch)
                if isinstance(event, CommentWritten):
                    at = event.comment.created_at
                    comments[topic] = min(comments.get(topic, at), at)
        problems = {each.id: "" for each in deliveries}
        for topic, concerned in reasons.items():
            try:
                problem = await self._about(
                    connection, topic, branches[topic], comments.get(topic), has_tags=topic in tagged
                )
            except ForgeAway as error:
                await contact.note_failure(self._db, connection, error)
                await self._put_off(deliveries, error)
                return
            except TerracrewError as error:
                if contact.is_of_connection(error):
                    await contact.note_failure(self._db, connection, error)
                    await self._put_off(deliveries, error)
                    return
                problem = error.message
            if problem:
                problems |= {each.id: problem for each in concerned}
        await self._finish(connection, problems)

    async def _about(
        self,
        connection: ForgeConnection,
        topic: tuple[str, int],
        branches: Collection[str],
        commented_at: datetime | None,
        *,
        has_tags: bool,
    ) -> str:
        """Ask what a delivery is about, and return why that was not possible, or not wanted."""
        name, number = topic
        repository = await self._db.read(lambda tx: repository_store.named(tx, connection.id, name))
        if repository is None or not repository.is_watched:
            return f"the repository {name} is not watched: no module of this place has it as its source"
        if number == 0:
            if has_tags:
                await self._db.write(lambda tx: self._on_tags(tx, connection, repository))
            if repository.default_branch in branches:
                await answers.refresh_branch(self._db, self._forges, connection, repository)
            if any(each.startswith(merge_queue.BRANCHES) for each in branches):
                await merge_queue.let_through(self._forges.of(connection), repository.name)
            return ""
        await answers.refresh(self._db, self._forges, connection, repository, number)
        if commented_at is not None:
            await self._ask_for_comments(connection, repository, commented_at)
        return ""

    async def _ask_for_comments(
        self, connection: ForgeConnection, repository: ForgeRepository, written_at: datetime
    ) -> None:
        """Ask for the comments from shortly before this time on, by the clock of the forge."""
        found = await self._forges.of(connection).comments(repository.name, written_at - COMMENTS_MARGIN)
        await self._db.write(lambda tx: answers.save_comments(tx, repository.id, found))

    async def _finish(self, connection: ForgeConnection, problems: dict[str, str]) -> None:
        async def work(tx: Tx) -> None:
            await delivery_store.finish(tx, problems)
            tx.wake("forges", connection.id)

        await self._db.write(work)

    async def _put_off(self, deliveries: Sequence[ForgeDelivery], error: TerracrewError) -> None:
        """Write that deliveries wait until the forge can be asked; those that have waited long enough are left to polling."""
        given_up = {
            each.id: f"{error.message}; it is left to polling" for each in deliveries if each.tries >= MAX_TRIES
        }
        waiting = [each for each in deliveries if each.id not in given_up]
        tries = min((each.tries for each in waiting), default=1)
        doubled = min(RETRY_SECONDS * 2 ** min(tries - 1, 10), MAX_RETRY_SECONDS)
        asked = error.retry_after_seconds if isinstance(error, ForgeAway) else 0.0
        seconds = max(asked, backoff.jittered(doubled, 0.2))

        async def work(tx: Tx) -> None:
            await delivery_store.finish(tx, given_up)
            await delivery_store.put_off(tx, [each.id for each in waiting], seconds, error.message)

        await self._db.write(work)


def _topic(event: ForgeEvent) -> tuple[str, int]:
    """Return what an event is about: the repository, and the number of the pull request, or 0 for its branches."""
    match event:
        case PullRequestChanged(repository=name, number=number):
            return name, number
        case CommentWritten(repository=name, comment=comment):
            return name, comment.number
        case BranchMoved(repository=name):
            return name, 0


async def _now(tx: Tx) -> float:
    return tx.now


async def _seconds_to_next(tx: Tx) -> float:
    at = await delivery_store.next_try(tx)
    return SWEEP_SECONDS if at is None else at - tx.now
