"""A state backend for engines that run without an executor: it keeps every state that it gets, and can refuse them."""

import base64
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from terracrew.errors import Conflict
from terracrew.executor.engines.contract import StateAccess

_USER, _SECRET = "attempt", "a-secret"
_AUTHORIZATION = "Basic " + base64.b64encode(f"{_USER}:{_SECRET}".encode()).decode()


class FakeStateBackend:
    def __init__(self, port: int) -> None:
        self.access = StateAccess(f"http://127.0.0.1:{port}/state", _USER, _SECRET, bytes(range(32)))
        self.states: list[bytes] = []
        """Every state that the engine saved, in order."""
        self.is_refusing = False
        """Whether it refuses every state from now on."""

    async def write(self, content: bytes) -> None:
        """Keep a state that an engine wrote to a file."""
        if self.is_refusing:
            raise Conflict("this backend refuses every state")
        self.states.append(content)


@contextmanager
def serving() -> Generator[FakeStateBackend]:
    backend: FakeStateBackend

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            state = backend.states[-1] if backend.states else b""
            self._answer(200 if state else 204, state)

        def do_POST(self) -> None:
            content = self._body()
            if backend.is_refusing:
                return self._answer(409)
            if self._is_authorized:
                backend.states.append(content)
            return self._answer(200)

        def do_LOCK(self) -> None:
            self._body()
            self._answer(200)

        def do_UNLOCK(self) -> None:
            self.do_LOCK()

        @property
        def _is_authorized(self) -> bool:
            return self.headers["Authorization"] == _AUTHORIZATION

        def _body(self) -> bytes:
            return self.rfile.read(int(self.headers["Content-Length"] or 0))

        def _answer(self, status: int, content: bytes = b"") -> None:
            self.send_response(status if self._is_authorized else 401)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the library's signature)
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        backend = FakeStateBackend(server.server_port)
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield backend
        finally:
            server.shutdown()
            thread.join()
