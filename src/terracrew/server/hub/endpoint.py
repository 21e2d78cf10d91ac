"""`/runnerhub`: a runner or an executor connects, says who it is, and is served until it goes."""

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
from litestar import WebSocket, websocket

from terracrew.errors import Invalid, TerracrewError, Unauthenticated
from terracrew.server.hub import executors, runners
from terracrew.server.hub.socket import HubSocket
from terracrew.server.identity.bearer import principal_from_bearer

if TYPE_CHECKING:
    from terracrew.server.context import Server

log = structlog.get_logger("terracrew.hub")


@websocket("/runnerhub", opt={"exclude_from_auth": True})
async def runnerhub(socket: "WebSocket[Any, Any, Any]") -> None:
    """Accept first: a refusal is a message with its reason, which no HTTP status of a failed upgrade would carry."""
    await socket.accept()
    hub_socket = HubSocket(socket)
    error = await _served(socket.app.state.server, hub_socket, socket)
    if error is None:
        await hub_socket.close()
    else:
        log.info("refused", code=error.code, reason=error.message)
        await hub_socket.refuse(error)


async def _served(
    server: "Server", hub_socket: HubSocket, socket: "WebSocket[Any, Any, Any]"
) -> TerracrewError | None:
    """Serve to the end; what is returned is told to the client."""
    try:
        principal = await principal_from_bearer(server.identity, _bearer(socket))
        serve = executors.serve if principal.kind == "executor" else runners.serve
        await serve(server, hub_socket, principal)
    except TerracrewError as error:
        return error
    except msgspec.MsgspecError as error:
        return Invalid(f"that is no message of this protocol: {error}")
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


def _bearer(socket: "WebSocket[Any, Any, Any]") -> str:
    scheme, _, token = socket.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("the hub takes a bearer token")
    return token
