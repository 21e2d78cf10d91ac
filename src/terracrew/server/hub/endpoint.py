"""`/runnerhub`: a runner or an executor connects, says who it is, and is served until it goes."""

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
    server: Server = socket.app.state.server
    await socket.accept()
    hub_socket = HubSocket(socket)
    try:
        principal = await principal_from_bearer(server.identity, _bearer(socket))
        serve = executors.serve if principal.kind == "executor" else runners.serve
        await serve(server, hub_socket, principal)
    except TerracrewError as error:
        log.info("refused", code=error.code, reason=error.message)
        await hub_socket.refuse(error.code, error.message)
    except (msgspec.MsgspecError, ValueError) as error:
        await hub_socket.refuse(Invalid.code, f"that is no message of this protocol: {error}")
    else:
        await hub_socket.close()


def _bearer(socket: "WebSocket[Any, Any, Any]") -> str:
    scheme, _, token = socket.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthenticated("the hub takes a bearer token")
    return token
