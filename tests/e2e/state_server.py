"""A small server of states, as a module's own backend: `http` of OpenTofu and Terraform reads and writes there."""

import http.server
import threading
from collections.abc import Generator
from contextlib import contextmanager


class StateServer:
    """The state that the module's own backend has, and how it answers."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.state = b""
        self.refuses = False
        """Whether it takes no state, as a backend does whose credentials have expired."""

    @property
    def block(self) -> str:
        """The configuration of a module that keeps its state here."""
        address = f"http://127.0.0.1:{self.port}/state"
        return f'terraform {{\n  backend "http" {{\n    address = "{address}"\n    retry_max = 0\n  }}\n}}\n'


@contextmanager
def running() -> Generator[StateServer]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200 if found.state else 404, found.state)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if found.refuses:
                self._answer(403, b"the credentials have expired")
                return
            found.state = body
            self._answer(200, b"")

        def _answer(self, code: int, body: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name of the class above)
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = StateServer(server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield found
        finally:
            server.shutdown()
