"""A server that accepts connections and never answers."""

import contextlib
import socket
from collections.abc import Generator


@contextlib.contextmanager
def silent_server() -> Generator[str]:
    """Listen without ever accepting: the kernel completes the handshake, and a client waits for its answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
