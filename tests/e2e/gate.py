"""A gate that a plan waits at: it asks for a state by HTTP and gets it when the test says so."""

import contextlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STATE = {
    "version": 4,
    "terraform_version": "1.12.6",
    "serial": 1,
    "lineage": "gate",
    "resources": [],
    "outputs": {"word": {"value": "through", "type": "string"}},
}


class Gate:
    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()
        gate = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                gate.reached.set()
                gate._open.wait(60)
                body = json.dumps(STATE).encode()
                with contextlib.suppress(ConnectionError):  # whoever asked may have been killed meanwhile
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_port}/"

    def open(self) -> None:
        self._open.set()

    @classmethod
    @contextmanager
    def closed(cls) -> Generator["Gate"]:
        gate = cls()
        thread = threading.Thread(target=gate._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield gate
        finally:
            gate.open()
            gate._server.shutdown()
