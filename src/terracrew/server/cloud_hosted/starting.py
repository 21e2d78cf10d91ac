"""Starts instances: one transaction decides how many and writes a row for each, then the cloud is asked for them by name.

The transaction holds the row of the deployment, so two servers that see the same jobs start one set. A request that was cut off is
repeated with the same names, by any server.
"""

from collections import OrderedDict
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta

import msgspec

from terracrew import backoff, ids
from terracrew.api.deployments import CloudInstance
from terracrew.api.jobs import JobStatus
from terracrew.clouds.contract import CloudRefused
from terracrew.clouds.model import InstanceRefused, InstanceStarted, StartAnswer, StartRequest
from terracrew.errors import TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.server.cloud_hosted import demand
from terracrew.server.cloud_hosted.describing import Described, ServerFacts, describe
from terracrew.server.cloud_hosted.model import CloudCalls
from terracrew.server.db.seam import Database, Tx
from terracrew.server.deployments import reads, store
from terracrew.server.deployments.model import CloudDeployment, instance_name, instances_to_start
from terracrew.server.jobs import queue_reads
from terracrew.server.jobs import service as jobs
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads as runner_reads
from terracrew.server.runners import seat_reads
from terracrew.server.supervise import Tasks

REPEAT_SECONDS = 20.0
"""After this long without an answer, the cloud is asked again for an instance."""
FIRST_RETRY_SECONDS = {
    "throttled": 5.0,
    "silent": 10.0,
    "capacity": 30.0,
    "addresses": 60.0,
    "quota": 60.0,
    "not_permitted": 60.0,
    "identity": 60.0,
    "missing": 60.0,
    "start": 30.0,
    "other": 30.0,
}
"""How long nothing is started after the first refusal, by its code. Each further one in a row doubles it."""
MAX_RETRY_SECONDS = 900.0
MAX_ASKING_SECONDS = 180.0
"""An answer is stored within this time, or the request was given up."""
_JITTER_RATIO = 0.2
log = get_logger("terracrew.server.cloud_hosted")


async def decide(
    tx: Tx, runner_id: str, queued: int, job_ids: Collection[str] = (), *, is_asked: bool = True
) -> list[CloudInstance]:
    """Write the rows of the instances that a runner needs for `queued` waiting jobs, and return them. With `is_asked`, the caller
    asks for them.

    `job_ids` are the jobs that were counted. One that was claimed since has taken a slot, and would otherwise count twice.
    """
    deployment = await store.hold(tx, runner_id)
    runner = (await runner_reads.records(tx, [runner_id])).get(runner_id)
    if deployment is None or runner is None or deployment.status != "deployed":
        return []
    live = await store.live_instances(tx, runner_id)
    seats = {seat.name: seat for seat in await seat_reads.seats(tx, [runner_id])}
    if queued and job_ids:  # read after the slots: a job that is claimed in between wakes nobody
        queued = max(0, queued - len(job_ids) + await queue_reads.still_queued(tx, job_ids))
    limits, now = demand.limits(deployment, runner), tx.moment
    count = instances_to_start(queued, demand.supplied(deployment, live, seats), limits, deployment.retry_at, now)
    return await want(tx, deployment, count, is_asked=is_asked) if count else []


async def wake(tx: Tx, runner_id: str) -> list[CloudInstance]:
    """Write the row of an instance, unless one with a free slot is there or coming. The loop of any server asks for it."""
    return await decide(tx, runner_id, 1, is_asked=False)


async def want(tx: Tx, deployment: CloudDeployment, count: int, *, is_asked: bool = True) -> list[CloudInstance]:
    """Write the rows of further instances of a deployment that the transaction holds. With `is_asked`, the caller asks for them."""
    epoch, now = deployment.epoch + 1, tx.moment
    await store.save(tx, deployment, msgspec.structs.replace(deployment, epoch=epoch))
    wanted = [
        CloudInstance(
            id=row_id,
            runner_id=deployment.runner_id,
            name=instance_name(deployment.runner_id, epoch, number, row_id),
            epoch=epoch,
            revision=deployment.revision,
            wanted_at=now,
            asked_at=now if is_asked else None,
        )
        for number in range(1, count + 1)
        for row_id in [ids.new("cin")]
    ]
    await store.insert_instances(tx, wanted)
    return wanted


def is_unanswered(instance: CloudInstance, now: datetime) -> bool:
    """Return whether the cloud is to be asked again for an instance."""
    before = now - timedelta(seconds=REPEAT_SECONDS)
    return instance.status == "wanted" and (instance.asked_at is None or instance.asked_at <= before)


async def take_unanswered(tx: Tx, runner_id: str) -> list[CloudInstance]:
    """Return the instances for which the cloud is to be asked again. They count as asked for by the caller.

    Nothing is started for a runner that is being removed, or that takes no jobs.
    """
    deployment = await store.hold(tx, runner_id)
    now = tx.moment
    runner = (await runner_reads.records(tx, [runner_id])).get(runner_id)
    if deployment is None or runner is None or runner.is_closed or not deployment.can_wake(now):
        return []
    found: list[CloudInstance] = []
    for each in await store.live_instances(tx, runner_id):
        if is_unanswered(each, now):
            asked = msgspec.structs.replace(each, asked_at=now)
            if await store.save_instance(tx, each, asked):
                found.append(asked)
    return found


async def asking(tx: Tx, runner_id: str) -> list[str]:
    """Return the names of the instances for which a request may be under way."""
    since = tx.moment - timedelta(seconds=MAX_ASKING_SECONDS)
    live = await store.live_instances(tx, runner_id)
    return [
        each.name for each in live if each.status == "wanted" and each.asked_at is not None and each.asked_at > since
    ]


async def ask(
    db: Database, calls: CloudCalls, server: ServerFacts, runner_id: str, wanted: Sequence[CloudInstance]
) -> None:
    """Ask the cloud for instances, and store what it answers. Without an answer, the same is asked again later."""
    described = await db.read(lambda tx: _describe_deployed(tx, runner_id, server))
    if described is None:
        await db.write(lambda tx: _end(tx, wanted, "its deployment was removed"))
        return
    answers = await _start(calls, described, wanted)
    if answers:
        await db.write(lambda tx: store_answers(tx, runner_id, answers))


async def _describe_deployed(tx: Tx, runner_id: str, server: ServerFacts) -> Described | None:
    """Return how a runner is run; None if it was removed, or is being removed: nothing may be started behind that."""
    deployment = await store.get(tx, runner_id)
    return None if deployment is None or deployment.status != "deployed" else await describe(tx, runner_id, server)


async def _start(calls: CloudCalls, described: Described, wanted: Sequence[CloudInstance]) -> list[StartAnswer]:
    requests = [StartRequest(each.name) for each in wanted]
    try:
        return await calls.start(described.identity, described.deployment, requests)
    except CloudRefused as error:
        return [InstanceRefused(each.name, "other", error.message) for each in wanted]
    except Unavailable as error:
        log.warning("the cloud was not reached", runner=described.deployment.runner_path, reason=error.message)
        return []


async def store_answers(tx: Tx, runner_id: str, answers: Sequence[StartAnswer]) -> None:
    """Store what the cloud answered. A refusal ends its row and is respected for a while, unless it is unknown what happened."""
    before = await store.hold(tx, runner_id)
    if before is None:
        return
    rows = {each.name: each for each in await store.live_instances(tx, runner_id)}
    now, after = tx.moment, before
    for answer in answers:
        row = rows.get(answer.instance)
        match answer:
            case InstanceStarted(reference=reference) if row is not None:
                started = row.to("starting", now) if row.status == "wanted" else row
                await store.save_instance(tx, row, msgspec.structs.replace(started, reference=reference))
            case InstanceRefused(code=code, words=words):
                if after.refusals == before.refusals:  # several instances of one request are refused once
                    after = refuse(after, code, words, tx)
                if row is not None and row.status == "wanted" and code != "silent":
                    await store.save_instance(tx, row, row.to("ended", now, words))
            case _:
                pass  # its row has ended meanwhile: the sweeper looks at what the cloud has started
    await store.save(tx, before, after)


def refuse(deployment: CloudDeployment, code: str, words: str, tx: Tx) -> CloudDeployment:
    """Return a deployment after a refusal. Nothing is started until a random time that grows with each refusal in a row."""
    first = FIRST_RETRY_SECONDS.get(code, FIRST_RETRY_SECONDS["other"])
    seconds = min(first * 2.0 ** min(deployment.refusals, 16), MAX_RETRY_SECONDS)
    now = tx.moment
    log.warning("the cloud does not start an instance", runner_id=deployment.runner_id, code=code, reason=words)
    retry_at = now + timedelta(seconds=backoff.jittered(seconds, _JITTER_RATIO))
    return deployment.refused(code, words, now, retry_at)


async def end_back_off(tx: Tx, runner_id: str) -> None:
    """Let a runner be woken again whose back-off is over. It stays known how often its cloud has refused in a row."""
    held = await store.hold(tx, runner_id)
    if held is not None and held.retry_at is not None and held.retry_at <= tx.moment:
        await store.save(tx, held, msgspec.structs.replace(held, retry_at=None))


async def _end(tx: Tx, instances: Sequence[CloudInstance], reason: str) -> None:
    for each in instances:
        await store.save_instance(tx, each, each.to("ended", tx.moment, reason))


PAUSE_SECONDS = 300.0
"""A runner is woken ahead at most this often, whatever is opened."""
MAX_KNOWN_PLANS = 10_000


class WakingAhead:
    def __init__(self, db: Database, tasks: Tasks) -> None:
        self._db, self._tasks = db, tasks
        self._known: OrderedDict[tuple[str, int], None] = OrderedDict()
        """The plans (job and attempt) that were opened on this server."""

    def open(self, who: Principal, job_id: str, attempt: int, status: JobStatus) -> None:
        """Note that somebody looks at a job. Nothing waits for what follows."""
        if status is not JobStatus.AWAITING_APPROVAL or (job_id, attempt) in self._known:
            return
        self._tasks.start(self.wake(who, job_id, attempt))

    async def wake(self, who: Principal, job_id: str, attempt: int) -> None:
        """Wake the runner that made the plan of a job, if its deployment says so and the person may approve the plan."""

        async def read(tx: Tx) -> str | None:
            await jobs.find(tx, who, job_id, Verb.JOB_APPROVE)
            return await reads.maker_of_open_plan(tx, job_id)

        try:
            runner_id = await self._db.read(read)
        except TerracrewError:  # they may only read it
            return
        self._known[job_id, attempt] = None
        if len(self._known) > MAX_KNOWN_PLANS:
            self._known.popitem(last=False)
        if runner_id is not None and await self._db.write(lambda tx: _wake(tx, runner_id)):
            log.info("waking a runner for a plan that waits for approval", runner_id=runner_id, job=job_id)


async def _wake(tx: Tx, runner_id: str) -> bool:
    held, now = await store.hold(tx, runner_id), tx.moment
    if held is None or not held.settings.wakes_ahead or not held.can_wake(now):
        return False
    if held.woken_ahead_at is not None and now - held.woken_ahead_at < timedelta(seconds=PAUSE_SECONDS):
        return False
    await store.save(tx, held, msgspec.structs.replace(held, woken_ahead_at=now))
    return bool(await wake(tx, runner_id))
