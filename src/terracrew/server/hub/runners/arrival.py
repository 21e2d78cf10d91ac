"""A runner process connects: it gets the place of its instance, if need be by a takeover, and is welcomed."""

import msgspec

from terracrew import ids
from terracrew.errors import Conflict, Invalid, TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.protocol import dispatcher_choice, limits, messages
from terracrew.server.connections.reads import ServedRunner
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.connections.socket import HubSocket
from terracrew.server.db.seam import Tx
from terracrew.server.hub.runners import ended_attempts, instances, once_connections, takeover, takeover_audit
from terracrew.server.hub.runners.context import Arriving, InstanceRow, RunnerContext
from terracrew.server.jobs.set_back import detection
from terracrew.server.principals.model import Principal
from terracrew.server.runners.model import SILENCE_SECONDS

log = get_logger("terracrew.hub")


async def take_place(
    hub: RunnerContext, socket: HubSocket, principal: Principal, hello: messages.RunnerHello
) -> tuple[RunnerSession, InstanceRow]:
    """Register the connection as the one of its instance. It gets no jobs before `welcome`."""
    if not 0 < hello.capacity <= limits.MAX_CAPACITY or not limits.is_instance_name(hello.instance):
        raise Invalid(
            f"a runner's capacity must be between 1 and {limits.MAX_CAPACITY}, and its instance needs a name of up to "
            f"{limits.MAX_INSTANCE_NAME_CHARACTERS} printable characters"
        )
    _check_engines(hello)
    _check_dispatchers(hello)
    if principal.once_token_id is not None:
        hello = msgspec.structs.replace(hello, capacity=1)
    # Before anything is decided about its attempts: a database that was set back does not know what became of them.
    await detection.compare(hub.db, hub.history, hello.history, f"the runner instance {hello.instance}")
    record, place = await _place(hub, principal, hello)
    session = RunnerSession(
        socket,
        principal,
        runner_id=record.id,
        instance_id=place.instance_id,
        name=hello.instance,
        epoch=place.epoch,
        engines=instances.available_engines(hello),
        slots=min(hello.capacity, record.max_jobs),
        version=hello.version,
        tags=record.tags,
        is_draining=hello.is_draining,
        may_leave=hello.may_leave,
        is_self_updating=hello.is_self_updating,
        knows_merge_results=hello.knows_merge_results,
        drain_sent=record.is_draining,
        configuration=record.configuration,
    )
    session.active_jobs = {ref.job_id for ref in place.current}
    session.starting = place.starting
    session.reported_attempts = set(hello.attempts)
    session.is_disk_full, session.is_on_trial = hello.is_disk_full, hello.is_on_trial
    session.drain_reason, session.ends_at = hello.drain_reason, hello.ends_at
    # It is closed until its record has been read again: changes that were made before it was in the registry were not sent to it.
    session.is_closed = True
    hub.registry.add(session)
    log.info("runner connected", runner=record.path, instance=hello.instance, version=hello.version)
    return session, place


def _check_engines(hello: messages.RunnerHello) -> None:
    versions = [version for each in hello.engine_versions.values() for version in each]
    named = [*hello.engines, *hello.engine_versions, *hello.installable_engines]
    about = [hello.version, hello.isolation, hello.machine, hello.drain_reason]
    about += [*named, *hello.engines.values(), *versions]
    if max(map(len, (hello.engines, hello.engine_versions, hello.installable_engines))) > limits.MAX_ENGINES:
        raise Invalid(f"a runner has up to {limits.MAX_ENGINES} engines")
    if any(len(each) > limits.MAX_ENGINE_VERSIONS for each in hello.engine_versions.values()):
        raise Invalid(f"a runner announces up to {limits.MAX_ENGINE_VERSIONS} versions of an engine")
    if not all(limits.is_label(each) for each in about):
        raise Invalid("the names and versions of a runner's engines are short and printable")
    if not limits.is_time(hello.ends_at):
        raise Invalid("the end of a runner must be a time")


def _check_dispatchers(hello: messages.RunnerHello) -> None:
    names = [each.name for each in hello.dispatchers]
    if len(names) > dispatcher_choice.MAX_DISPATCHERS or len(set(names)) < len(names):
        raise Invalid(f"a runner has up to {dispatcher_choice.MAX_DISPATCHERS} dispatchers with different names")
    if len(msgspec.json.encode(hello.dispatchers)) > dispatcher_choice.MAX_OFFER_BYTES:
        raise Invalid(
            f"what a runner says of its dispatchers has up to {dispatcher_choice.MAX_OFFER_BYTES >> 10} KiB: "
            "allow fewer images and service accounts, or use wider patterns"
        )
    for each in hello.dispatchers:
        patterns = (each.allows.images, each.allows.service_accounts)
        if max(map(len, patterns)) > dispatcher_choice.MAX_PATTERNS:
            raise Invalid(f"a dispatcher has up to {dispatcher_choice.MAX_PATTERNS} patterns in each list")
        if len(each.engines) > limits.MAX_ENGINES or any(
            len(versions) > limits.MAX_ENGINE_VERSIONS for versions in each.engines.values()
        ):
            raise Invalid(f"a dispatcher has up to {limits.MAX_ENGINES} engines")
        labels = [each.name, each.type, *each.engines, *(text for found in each.engines.values() for text in found)]
        is_short = all(limits.is_label(text) for text in labels) and all(
            limits.is_label(text, dispatcher_choice.MAX_PATTERN_CHARACTERS) for found in patterns for text in found
        )
        if not is_short:
            raise Invalid("what a runner says of its dispatchers is short and printable")


async def _place(
    hub: RunnerContext, principal: Principal, hello: messages.RunnerHello
) -> tuple[ServedRunner, InstanceRow]:
    asked: list[takeover.Question] | None = None
    arriving = Arriving(principal, hello)
    if principal.once_token_id is None and ids.is_id("rnr", hello.runner_id):
        placed = await hub.places(arriving)
        if placed is not None:
            return placed

    async def work(tx: Tx) -> tuple[ServedRunner, InstanceRow | list[takeover.Question]]:
        record = await instances.runner_row(tx, principal, hello.runner_id, hello.runner_path)
        gap_ended_at = tx.now - hub.registry.watched_for if hub.registry.watched_for < SILENCE_SECONDS else 0.0
        seats = await takeover_audit.former_instances(tx, record, hello)
        await once_connections.check_seats(tx, principal, hello, seats)
        if questions := await takeover.questions_for(tx, record, hello, asked, gap_ended_at):
            return record, questions
        former = next((seat for seat in seats if seat.name == hello.instance), None)
        [place] = await instances.connect(tx, hub.server_id, [(arriving, record, former)])
        if place is None:
            raise Unavailable(f"another process has just connected as {hello.instance} of {record.path}; try again")
        await once_connections.check_place(tx, principal, place.instance_id)
        await takeover_audit.record(tx, principal, record, hello, seats, place)
        return record, place

    record: ServedRunner | None = None
    while True:
        try:
            record, place = await hub.db.write(work)
        except (Conflict, Unavailable) as refusal:
            if asked and record is not None:
                await _note_refused_takeover(hub, principal, record, hello, refusal)
            raise
        if isinstance(place, InstanceRow):
            return record, place
        asked = place
        await takeover.wait(hub.db, asked)


async def _note_refused_takeover(
    hub: RunnerContext,
    principal: Principal,
    record: ServedRunner,
    hello: messages.RunnerHello,
    refusal: TerracrewError,
) -> None:
    """Raise an alert about a refused takeover: either an operator's mistake or a stolen token."""
    log.warning("takeover refused", runner=record.path, instance=hello.instance, reason=refusal.message)
    await hub.db.write(lambda tx: takeover_audit.record_refusal(tx, principal, record, hello, refusal.message))


async def welcome(hub: RunnerContext, session: RunnerSession, place: InstanceRow, protocol: int) -> None:
    session.socket.post(
        messages.RunnerWelcome(
            session.instance_id,
            session.epoch,
            protocol,
            session.configuration.heartbeat,
            unknown=sorted(session.reported_attempts - place.current),
            is_draining=session.drain_sent,
            log_level=session.configuration.levels,
            resume=place.resume,
            runner_id=session.runner_id,
            history=session.next_point(hub.history.latest) or "",
        )
    )
    await ended_attempts.requeue_missing(hub, place.current - session.reported_attempts)
    await instances.refresh_new(hub, session)
    if error := await once_connections.end_of(
        hub.db, hub.identity.tokens, session
    ):  # it was revoked or used while this connection was made
        raise error
