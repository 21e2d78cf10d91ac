"""A real HTTP server on loopback that answers what a test tells it to, and keeps what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Asked:
    """A request as it arrived."""

    def __init__(self, handler: BaseHTTPRequestHandler) -> None:
        self.method = handler.command
        self.path = handler.path
        self.headers = handler.headers
        self.body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.handler = handler

    def __eq__(self, other: object) -> bool:
        return f"{self.method} {self.path}" == other

    def __repr__(self) -> str:
        return f"{self.method} {self.path}"

    def json(self) -> Any:
        return json.loads(self.body)

    def answer(self, status: int, body: Any = None, kind: str = "application/json", **headers: str) -> None:
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.handler.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **headers}.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.end_headers()
        self.handler.wfile.write(content)

    def problem(self, status: int, code: str, detail: str, **details: Any) -> None:
        body = {"type": "about:blank", "title": "?", "status": status, "detail": detail, "code": code, **details}
        self.answer(status, body, "application/problem+json")

    def stream(self, *pieces: bytes) -> None:
        """Send the pieces of an event stream, one chunk each, then break off without the chunk that would end it."""
        self.handler.send_response(200)
        self.handler.send_header("Content-Type", "text/event-stream")
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()
        for piece in pieces:
            self.handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.handler.wfile.flush()
        self.handler.close_connection = True

    def hang_up(self) -> None:
        """Close the connection without an answer."""
        self.handler.close_connection = True


class ScriptedServer:
    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[Asked] = []
        self.routes: dict[str, Callable[[Asked], None]] = {}
        self.script: list[Callable[[Asked], None]] = []

    def then(self, *answers: Callable[[Asked], None]) -> None:
        """Answer the next requests in this order, whatever they ask for."""
        self.script.extend(answers)

    def on(self, request: str, body: Any, status: int = 200) -> None:
        """Answer this request (`GET /path`, query included) always so."""
        self.routes[request] = lambda asked: asked.answer(status, body)

    def _answer(self, asked: Asked) -> None:
        self.asked.append(asked)
        if self.script:
            self.script.pop(0)(asked)
        elif repr(asked) in self.routes:
            self.routes[repr(asked)](asked)
        else:
            asked.problem(404, "not_found", f"there is nothing at {asked.path}")


@contextmanager
def running() -> Iterator[ScriptedServer]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            try:
                super().handle_one_request()
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True  # the client has heard enough

        def do_GET(self) -> None:
            site._answer(Asked(self))

        do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site = ScriptedServer(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
