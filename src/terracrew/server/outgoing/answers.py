"""What becomes of a request to an address that somebody configured: an answer, or the reason why there is none."""

import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class OutgoingAnswer:
    status: int
    headers: Mapping[str, str]
    """By lower-case names. Values of a repeated name are joined by commas."""
    body: bytes
    incomplete: str = ""
    """Why the body is not whole: it is too large, came too slowly, or the connection ended. Empty if it is whole."""
    is_private: bool = False
    """Whether it comes from an address that is not public, so that its body could be a page of an internal service."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class NotSent(Exception):
    """There was no answer. The reason names the host, and never the path or the query, which can be secrets."""

    def __init__(self, reason: str, *, is_refused: bool = False) -> None:
        """`is_refused`: this server does not send to such an address, so nothing was sent."""
        super().__init__(reason)
        self.reason = reason
        self.is_refused = is_refused


def connection_problem(error: Exception, host: str) -> str:
    """Return in words why a host cannot be connected to. The text of most errors would repeat more than the host."""
    match error:
        case socket.gaierror():
            return f"the name {host} is not known"
        case ConnectionRefusedError():
            return f"{host} refuses the connection"
        case ConnectionError():
            return f"{host} ended the connection"
        case ssl.SSLCertVerificationError():
            return f"the certificate of {host} is not valid here: {error.verify_message}"
        case _:
            return f"{host} cannot be connected to: {type(error).__name__}"
