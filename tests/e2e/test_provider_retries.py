"""The provider `terracrew` waits for a server that is busy or away, as long as the server asks for."""

import itertools
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.e2e.provider_workspace import Workspace
from tests.e2e.system import System

GROUP = """
resource "terracrew_group" "platform" {
  path = "platform"
}
"""
BUSY = b'{"type": "about:blank", "title": "Busy", "status": %d, "detail": "busy", "code": "unavailable"}'


class Busy(BaseHTTPRequestHandler):
    """Answers every second request itself: it is busy, and says for how long. The others are passed on to the server."""

    target = ""
    numbers = itertools.count()
    refused: list[str]

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if (number := next(self.numbers)) % 2 == 0:
            self.refused.append(self.command)
            status = 503 if number % 4 else 429
            self._send(status, "application/problem+json", BUSY % status, {"Retry-After": "1"})
            return
        request = urllib.request.Request(self.target + self.path, body or None, dict(self.headers), method=self.command)
        with urllib.request.urlopen(request, timeout=20) as answer:
            self._send(answer.status, answer.headers["Content-Type"] or "", answer.read(), {})

    def _send(self, status: int, kind: str, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Type": kind, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = _answer  # noqa: N815 - http.server finds them by these names

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in http.server
        """Print nothing."""


@pytest.fixture
def busy(system: System) -> Iterator[type[Busy]]:
    system.start_server(runner=False)
    handler = type("BusyServer", (Busy,), {"target": system.url, "refused": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        system.url = f"http://127.0.0.1:{proxy.server_address[1]}"
        yield handler
        proxy.shutdown()


@pytest.mark.feature("K9.outages")
@pytest.mark.engine
def test_a_busy_server_is_asked_again_after_the_time_that_it_names(system: System, busy: type[Busy]) -> None:
    workspace = Workspace(system)
    began = time.monotonic()
    workspace.apply(GROUP)
    assert busy.refused == ["GET", "GET", "POST"], (
        "plan and apply ask for the token's owner, and then something is made"
    )
    assert time.monotonic() - began > len(busy.refused)
