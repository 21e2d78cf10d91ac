"""Serves a connected executor, which delivers its attempt's events and asks for permission to apply."""

import asyncio

import msgspec

from terracrew.errors import Invalid
from terracrew.protocol import messages, version
from terracrew.protocol.messages import AttemptRef, LogSettings
from terracrew.server.connections import heartbeats
from terracrew.server.connections import store as instance_store
from terracrew.server.connections.registry import ExecutorSession
from terracrew.server.connections.socket import HubSocket
from terracrew.server.db.availability import retry_when_back
from terracrew.server.hub.executors.context import ExecutorContext
from terracrew.server.hub.executors.deliveries import NO_SECRETS, Deliveries, ModuleSecrets
from terracrew.server.jobs import decide
from terracrew.server.jobs.attempts import begin, claims
from terracrew.server.jobs.set_back import detection, restore
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal


async def serve(hub: ExecutorContext, socket: HubSocket, principal: Principal) -> None:
    frame = await socket.hello()
    if frame is None:
        return
    protocol = version.greeted(frame, kind="executor")
    hello = messages.decode_from_executor(frame)
    assert isinstance(hello, messages.ExecutorHello)
    session = ExecutorSession(socket, await _admitted(hub, principal, hello))
    session.address = principal.address
    deliveries: Deliveries | None = None
    # This comes before anything is read, so that every decision from now on is sent to the executor.
    hub.registry.add_executor(session)
    try:
        await socket.keep_alive()
        deliveries = await _welcome(hub, session, protocol, hello)
        while (frame := await socket.receive()) is not None:
            if isinstance(frame, bytes):
                await deliveries.take(frame)
            else:
                await _permit(hub, session, deliveries, messages.decode_from_executor(frame))
    finally:
        hub.registry.remove_executor(session)
        if deliveries is not None:
            await deliveries.stop()
        if session.is_far_from_runner and not hub.closing.is_set():
            ref = session.ref
            hub.tasks.start(hub.db.write(lambda tx: instance_store.disconnect_executor(tx, ref, hub.server_id)))


async def _admitted(hub: ExecutorContext, principal: Principal, hello: messages.ExecutorHello) -> AttemptRef:
    own = principal.attempt
    assert own is not None
    place = authorize.module(own.organization_id, own.module_path, hello.job_id, hello.attempt)
    await authorize.require(hub.db, principal, Verb.ATTEMPT_REPORT, place)
    return AttemptRef(hello.job_id, hello.attempt)


async def _welcome(
    hub: ExecutorContext, session: ExecutorSession, protocol: int, hello: messages.ExecutorHello
) -> Deliveries:
    ref, socket = session.ref, session.socket
    await detection.compare(hub.db, hub.history, hello.history, f"attempt {ref.attempt} of {ref.job_id}")
    owned, configured, secrets = await hub.arrivals(session)
    if owned.attempt.may_have_begun or (hello.has_begun and owned.attempt.begun_at is None):
        is_proven = hub.history.prove_begin(hello.history, ref)
        await restore.recall(hub.db, ref, has_begun=hello.has_begun, is_proven=is_proven)
    module_secrets = await asyncio.to_thread(ModuleSecrets, secrets) if secrets else NO_SECRETS
    session.has_begun = owned.attempt.begun_at is not None or hub.history.prove_begin(hello.history, ref)
    session.log_settings = LogSettings(False, configured.batch_size_limit, configured.period_seconds)
    job, attempt = owned.job, owned.attempt
    state_key = hub.keys.decrypt(owned.sealed_key, claims.state_key_context(ref.job_id, ref.attempt))
    is_current = decide.is_current(job, attempt)
    session.is_far_from_runner = attempt.instance_id not in hub.registry.runners
    if is_current and (attempt.started_at is not None or session.is_far_from_runner):
        # The executor was disconnected, or its runner is. Another server may have seen it disconnect, or may send
        # cancellations to the runner instead. It must learn of this connection before the next round of heartbeats.
        await hub.db.write(lambda tx: heartbeats.executor_came(tx, ref, hub.server_id))
    session.log_settings = msgspec.structs.replace(session.log_settings, is_watched=hub.watchers.is_watched(job.id))
    socket.post(
        messages.ExecutorWelcome(
            attempt.mark,
            protocol,
            is_superseded=not is_current,
            has_result=attempt.has_result,
            log_settings=session.log_settings,
        )
    )
    if is_current and job.cancel_mode is not None:
        session.cancel(job.cancel_mode)
    return Deliveries(hub, session, job.module_id, state_key, module_secrets)


async def _permit(
    hub: ExecutorContext, session: ExecutorSession, deliveries: Deliveries, message: messages.FromExecutor
) -> None:
    """Answer the request for permission to apply, once everything that came before it is stored."""
    if not isinstance(message, messages.Begin):
        raise Invalid("a connection may send only one hello")
    await deliveries.stop()
    answer = await retry_when_back(
        hub.db, lambda: begin.permit(hub.db, hub.registry, hub.history, hub.policies, session.ref, message)
    )
    session.has_begun |= isinstance(answer, messages.Begun)
    session.socket.post(answer)
