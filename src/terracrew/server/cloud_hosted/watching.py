"""Follows the instances of a runner: which have said hello, what the cloud says about the others, and which have ended."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from terracrew.api.deployments import CloudInstance, CloudInstanceStatus
from terracrew.clouds.model import InstanceState
from terracrew.errors import TerracrewError
from terracrew.logging import get_logger
from terracrew.server.audit import service as audit
from terracrew.server.cloud_hosted import leaving, starting, sweeping
from terracrew.server.cloud_hosted.describing import Described, ServerFacts, describe
from terracrew.server.cloud_hosted.model import CloudCalls
from terracrew.server.cloud_hosted.sweeping import Ownerless
from terracrew.server.db.seam import Database, Tx
from terracrew.server.deployments import reads, store
from terracrew.server.deployments.reads import InstancePresence
from terracrew.server.history import store as history
from terracrew.server.principals.model import SYSTEM

STARTING_SECONDS = 4.0
"""How often the cloud is asked about a runner of which an instance starts."""
RUNNING_SECONDS = 60.0
"""How often it is asked about one whose instances all run."""
MISSING_SECONDS = 15.0
"""How often it is asked about one of which an instance has lost its connection."""
LEFT_SECONDS = 5.0
"""An instance that was let go has ended this long after its connection."""
MAX_LINES = 5
"""How many of the last lines of an instance are told that ended before it said hello."""
LEFT_WORDS = "it had nothing to do, and left"
FORGOTTEN_WORDS = "its process is gone, and the cloud does not know it any more"
log = get_logger("terracrew.server.cloud_hosted")


def pause_seconds(live: Sequence[CloudInstance], present: dict[str, InstancePresence]) -> float:
    """Return how long the cloud need not be asked about these instances again."""
    if any(each.status in ("wanted", "starting") for each in live):
        return STARTING_SECONDS
    if any(each.name not in present or not present[each.name].is_connected for each in live):
        return MISSING_SECONDS
    return RUNNING_SECONDS


def is_watch_due(live: Sequence[CloudInstance], present: dict[str, InstancePresence], now: datetime) -> bool:
    """Return whether the cloud is to be asked about these instances now."""
    pause = timedelta(seconds=pause_seconds(live, present))
    if any(each.watched_at is not None and now - each.watched_at < pause for each in live):
        return False
    return any(each.asked_at is None or now - each.asked_at >= pause for each in live)


def is_presence_new(
    revision: int, live: Sequence[CloudInstance], present: dict[str, InstancePresence], now: datetime
) -> bool:
    """Return whether an instance has said hello or left, and its row does not say so yet, or is to be retired."""
    return any(
        (found := present.get(each.name)) is not None
        and (_status(each, found, now) != each.status or leaving.is_due(revision, each, found))
        for each in live
    )


def _status(row: CloudInstance, found: InstancePresence, now: datetime) -> CloudInstanceStatus:
    """Return the status of an instance, by its connection."""
    if row.status in ("wanted", "starting") and found.is_connected:
        return "running"
    if row.status == "leaving" and found.is_connected and not found.is_leaving:
        return "running"
    return "ended" if row.status == "leaving" and _has_left(found, now) else row.status


async def note_presence(tx: Tx, runner_id: str) -> None:
    """Note which instances of a runner have said hello, and which have left."""
    before = await store.hold(tx, runner_id)
    if before is None:
        return
    present, after, now = (await reads.presence(tx, [runner_id]))[runner_id], before, tx.moment
    for each in await store.live_instances(tx, runner_id):
        if (found := present.get(each.name)) is None:
            continue
        status = _status(each, found, now)
        if status == "running" and each.status != status:
            if each.hello_at is None and found.connected_at >= each.wanted_at:  # it may be older than its row
                after = after.started_in((found.connected_at - each.wanted_at).total_seconds())
            await store.save_instance(tx, each, each.to("running", found.connected_at))
        elif status == "ended":
            await store.save_instance(tx, each, each.to("ended", now, LEFT_WORDS))
    await store.save(tx, before, after)
    await leaving.retire_older(tx, after)


def _has_left(found: InstancePresence, now: datetime) -> bool:
    gone_at = None if found.is_connected else found.disconnected_at
    return gone_at is not None and now - gone_at > timedelta(seconds=LEFT_SECONDS)


async def take_watch(tx: Tx, runner_id: str, *, is_last: bool = False) -> list[CloudInstance] | None:
    """Return the instances to ask the cloud about; None if it is not yet time, or if another server has just asked.

    `is_last` is for a runner whose last instance has ended: it is asked once whether anything is left.
    """
    if await store.hold(tx, runner_id) is None:
        return None
    live, now = await store.live_instances(tx, runner_id), tx.moment
    if not live:
        return [] if is_last else None
    if not is_watch_due(live, (await reads.presence(tx, [runner_id]))[runner_id], now):
        return None
    for each in live:
        await store.save_instance(tx, each, msgspec.structs.replace(each, watched_at=now))
    return live


async def watch(
    db: Database,
    calls: CloudCalls,
    server: ServerFacts,
    runner_id: str,
    live: Sequence[CloudInstance],
    began_at: float | None,
) -> bool:
    """Ask the cloud about the instances of a runner, store what it says, and stop what nobody owns. Returns whether that was done.

    `began_at`: since when the server runs. Instances that live need some time to connect again after that.
    """
    described = await db.read(lambda tx: describe(tx, runner_id, server))
    if described is None:
        return True
    references = [each.reference for each in live if each.reference]
    try:
        states = await calls.watch(described.identity, described.deployment, references)
    except TerracrewError as error:  # it is asked again after the usual time
        log.warning("the cloud did not say what runs", runner=described.deployment.runner_path, reason=error.message)
        states = None
    ownerless = await db.write(lambda tx: store_states(tx, runner_id, states, began_at))
    are_stopped = [await _stop(db, calls, described, each) for each in ownerless]
    return states is not None and all(are_stopped)


async def store_states(
    tx: Tx, runner_id: str, answer: Sequence[InstanceState] | None, began_at: float | None
) -> list[Ownerless]:
    """Store what the cloud says about the instances of a runner; None: it has not answered. Returns those that are to be stopped."""
    before = await store.hold(tx, runner_id)
    if before is None:
        return []
    rows = {each.name: each for each in await reads.instances(tx, runner_id)}
    states = answer or ()
    connected, spared = await reads.connected_names(tx, runner_id), await _spared(tx, runner_id)
    now, after = tx.moment, before
    by_reference = {state.reference: state for state in states}
    by_name = {state.instance: state for state in states}
    given_up: list[Ownerless] = []
    for row in rows.values():
        state = by_reference.get(row.reference) or by_name.get(row.name)
        if not row.is_live or (state is not None and not _is_of(state, row)):
            continue
        ended, words = _ended(row, state, connected, spared, now)
        if not ended and answer is not None and state is None and sweeping.is_forgotten(row, spared, now):
            ended, words = True, FORGOTTEN_WORDS
        if ended and await store.save_instance(tx, row, row.to("ended", now, words)):
            if row.hello_at is None and row.status != "leaving" and after.refusals == before.refusals:
                after = starting.refuse(after, "start", words, tx)
            is_waited_for = row.status in ("wanted", "starting")
            if is_waited_for and row.reference and (state is None or state.phase != "ended"):
                given_up.append(Ownerless(row.name, row.reference, words))
        elif not ended and state is not None:
            await store.save_instance(tx, row, _seen(row, state, now))
    await store.save(tx, before, after)
    is_settled = began_at is not None and tx.now - began_at > sweeping.HELLO_SECONDS
    knows_all = is_settled and await history.open_hold(tx) is None
    return [*given_up, *sweeping.ownerless(states, rows, spared, now, knows_all=knows_all)]


async def _spared(tx: Tx, runner_id: str) -> set[str]:
    return await reads.spared_names(tx, runner_id, tx.now - sweeping.HELLO_SECONDS)


def _is_of(state: InstanceState, row: CloudInstance) -> bool:
    """Return whether a state is about this row: a cloud that does not say the name of an instance knows its reference."""
    return state.reference == row.reference or (not row.reference and state.instance == row.name)


def _ended(
    row: CloudInstance, state: InstanceState | None, connected: set[str], spared: set[str], now: datetime
) -> tuple[bool, str]:
    """Return whether an instance counts as ended, and why. One whose process is connected never does."""
    if row.name in connected:
        return False, ""
    if state is not None and state.phase == "ended":
        return True, _last_words(row, state)
    if sweeping.is_overdue(row, spared, now):
        said = f" ({state.words})" if state is not None and state.words else ""
        return True, f"it did not say hello in {sweeping.HELLO_SECONDS / 60:.0f} minutes{said}"
    return False, ""


def _last_words(row: CloudInstance, state: InstanceState) -> str:
    if row.status == "leaving":
        return LEFT_WORDS
    words = state.words or "the cloud has ended it"
    if state.exit_code is not None and "exit code" not in words:
        words += f" (exit code {state.exit_code})"
    if row.hello_at is None:
        lines = "\n".join(state.last_lines[-MAX_LINES:])
        return f"it ended before it said hello: {words}" + (f"\n{lines}" if lines else "")
    return words


def _seen(row: CloudInstance, state: InstanceState, now: datetime) -> CloudInstance:
    """Return an instance with what the cloud says about it. An answer to a request that was lost is found again here."""
    if row.status == "wanted":
        row = row.to("starting", now)
    words = state.words or ("starting its process" if state.phase == "running" else "")
    return msgspec.structs.replace(
        row, reference=state.reference, words=words if row.status == "starting" else row.words
    )


async def _stop(db: Database, calls: CloudCalls, described: Described, ownerless: Ownerless) -> bool:
    """Stop an instance that nobody owns, and say so in the log and in the audit log. Returns False if the cloud did not do it."""
    deployment = described.deployment

    async def is_spared(tx: Tx) -> bool:
        return ownerless.name in await _spared(tx, deployment.runner_id)

    if await db.read(is_spared):  # it has said hello meanwhile
        return True
    try:
        await calls.stop(described.identity, deployment, ownerless.reference, ownerless.reason)
    except TerracrewError as error:
        log.warning("an instance that nobody owns was not stopped", instance=ownerless.name, reason=error.message)
        return False
    log.warning(
        "stopped an instance that nobody owns",
        runner=deployment.runner_path,
        instance=ownerless.name,
        reason=ownerless.reason,
    )
    details = {"path": deployment.runner_path, "instance": ownerless.name, "reason": ownerless.reason}
    await db.write(
        lambda tx: audit.record(
            tx,
            SYSTEM,
            "runner.stop_instance",
            "runner",
            deployment.runner_id,
            details,
            organization_id=deployment.organization_id,
        )
    )
    return True
