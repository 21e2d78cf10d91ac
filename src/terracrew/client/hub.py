"""The outbound connection to the runner hub, the same for runners and executors: one address, one credential."""

from urllib.parse import urlsplit, urlunsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as _connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidMessage, InvalidProxy, InvalidStatus

from terracrew.client import problems, transport
from terracrew.errors import Forbidden, Incompatible, Invalid, Unauthenticated, Unreachable
from terracrew.protocol.messages import MAX_GRANT_FRAME_BYTES, RECEIPT_HEADER

__all__ = ["PATH", "ClientConnection", "ConnectionClosed", "address", "connect"]

PATH = "/runnerhub"
_FINAL_ERRORS = (Unauthenticated, Forbidden, Incompatible)


def address(server_url: str) -> str:
    """Return the hub's WebSocket address on a server given by its HTTP address."""
    parts = urlsplit(server_url)
    scheme = {"http": "ws", "https": "wss"}.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise Invalid(f"{server_url!r} is not the address of a server: expected http://host or https://host")
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + PATH, "", ""))


class _Connect(_connect):
    def process_redirect(self, exc: Exception) -> Exception | str:
        """Follow no redirect: a credential goes to the server that it is for, and nowhere else."""
        return exc


async def connect(
    server_url: str, credential: str, *, max_frame: int = MAX_GRANT_FRAME_BYTES, receipt: str = ""
) -> ClientConnection:
    """Open a connection. Unauthenticated, Forbidden and Incompatible are final; after Unreachable, the caller should retry.

    Our server accepts every handshake and sends its refusal as a message. A handshake that fails was therefore answered by
    something else, unless the answer has a problem code of ours.
    """
    url = address(server_url)
    try:
        return await _Connect(
            url,
            additional_headers={
                "Authorization": f"Bearer {credential}",
                **({RECEIPT_HEADER: receipt} if receipt else {}),
            },
            compression=None,
            user_agent_header=None,
            proxy=transport.websocket_proxy(url),
            max_size=max_frame,
            write_limit=1 << 20,
            close_timeout=1,
        )
    except InvalidStatus as error:
        response = error.response
        own = problems.own(response.headers, bytes(response.body or b""))
        if isinstance(own, _FINAL_ERRORS):
            raise own from error
        asked = f"the WebSocket handshake of {url}"
        raise own or problems.foreign(response.status_code, response.headers, asked) from error
    except InvalidProxy:
        # The error of the library is not repeated, since it contains the password of the proxy.
        form = "http://host:port or http://name:password@host:port"
        raise Unreachable(
            f"{server_url} cannot be reached: the proxy that the environment names for it is not a URL like {form}"
        ) from None
    except (OSError, TimeoutError, InvalidHandshake, InvalidMessage, EOFError) as error:
        raise Unreachable(f"{server_url} cannot be reached: {error}") from error
