"""`/runnerhub`: a runner or an executor connects, authenticates, and is served until it disconnects."""

import asyncio
from dataclasses import dataclass

import msgspec
from litestar.types import Receive, Scope, Send

from terracrew.errors import Invalid, TerracrewError, Unauthenticated
from terracrew.logging import get_logger
from terracrew.protocol.messages import RECEIPT_HEADER
from terracrew.server.connections.socket import HubSocket
from terracrew.server.hub.executors import serve as executors
from terracrew.server.hub.executors.context import ExecutorContext
from terracrew.server.hub.runners import serve as runners
from terracrew.server.hub.runners.context import RunnerContext
from terracrew.server.identity.bearer import principal_from_bearer
from terracrew.server.jobs.set_back import receipts, restore
from terracrew.server.principals.model import Principal
from terracrew.server.transport.keepalive import send_now_of

PATH = "/runnerhub"
HOLD_SECONDS = 8.0
"""How long a new connection waits for the database, which is less than a client's timeout."""
_MAX_REASON_CHARACTERS = 500
"""An error may quote what was sent."""
MAX_HELLOS = 64
"""Hellos that are being answered at a time; the others wait in the order in which they came."""
log = get_logger("terracrew.hub")


@dataclass(frozen=True)
class HubContext:
    runners: RunnerContext
    executors: ExecutorContext


async def runnerhub(hub: HubContext, door: asyncio.Semaphore, scope: Scope, receive: Receive, send: Send) -> None:
    """Accept first: a refusal is a message with its reason, which no HTTP status of a failed upgrade would carry.

    This endpoint does not go through the web framework. Every executor connects once, and the layers of the framework
    would double the cost without doing anything useful here. Access is checked below, as everywhere.
    """
    if (await receive())["type"] != "websocket.connect":
        return
    await send({"type": "websocket.accept", "subprotocol": None, "headers": []})
    hub_socket = HubSocket(receive, send, door, send_now_of(scope))
    error = await _served(hub, hub_socket, scope)
    if error is None:
        await hub_socket.close()
    else:
        log.info("refused", code=error.code, reason=error.message)
        await hub_socket.refuse(error)


async def _served(hub: HubContext, hub_socket: HubSocket, scope: Scope) -> TerracrewError | None:
    """Serve the connection until it ends. If an error is returned, it is sent to the client."""
    try:
        db = hub.runners.db
        if not db.health.is_reachable():
            await hub_socket.end_turn()
        await db.ready(HOLD_SECONDS)
        token, receipt = _bearer(scope), _header(scope, RECEIPT_HEADER)
        scope["headers"] = []  # which would be kept as long as the connection
        principal = await _principal(hub, token, receipt)
        await hub_socket.end_turn()
        client = scope["client"] if "client" in scope else None  # noqa: SIM401 - `get` of this type is not typed
        principal = msgspec.structs.replace(principal, address=client[0] if client else None)
        if principal.kind == "executor":
            await executors.serve(hub.executors, hub_socket, principal)
        else:
            await runners.serve(hub.runners, hub_socket, principal)
    except TerracrewError as error:
        return error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Invalid(f"this is not a message of this protocol: {str(error)[:_MAX_REASON_CHARACTERS]}")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if hub_socket.dropped is None or task is None:
            raise
        task.uncancel()
        return hub_socket.dropped
    except Exception:
        log.exception("a connection failed")
        return TerracrewError("something went wrong here; the server's log has the details")
    return None


async def _principal(hub: HubContext, token: str, receipt: str) -> Principal:
    """Return who connects. An attempt that a database which was set back has lost is taken again by its receipt."""
    identity = hub.runners.identity
    try:
        return await principal_from_bearer(identity, token)
    except Unauthenticated:
        if not receipt:
            raise
    await restore.restore(hub.runners.db, receipts.open_receipt(hub.executors.keys, receipt, token))
    return await principal_from_bearer(identity, token)


def _header(scope: Scope, name: str) -> str:
    return dict(scope["headers"]).get(name.lower().encode(), b"").decode("latin-1")


def _bearer(scope: Scope) -> str:
    scheme, _, token = _header(scope, "Authorization").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("the hub requires a bearer token")
    return token
