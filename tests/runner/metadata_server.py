"""A small server of instance metadata (IMDSv2), for what the announcements of a machine do to a runner."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_TOKEN_PATH = "/latest/api/token"


class MetadataServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        self.pages: dict[str, str] = {}
        """The text of each page below `/latest/meta-data/`; the others do not exist."""
        self.asked: list[str] = []
        self.tokens = 0
        self.valid_token = ""
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: MetadataServer  # pyright: ignore[reportIncompatibleVariableOverride] - the only server that it has

    def do_PUT(self) -> None:
        if self.path != _TOKEN_PATH or not self.headers.get("X-aws-ec2-metadata-token-ttl-seconds"):
            return self._answer(400, "")
        self.server.tokens += 1
        self.server.valid_token = f"token-{self.server.tokens}"
        return self._answer(200, self.server.valid_token)

    def do_GET(self) -> None:
        if self.headers.get("X-aws-ec2-metadata-token") != self.server.valid_token:
            return self._answer(401, "")
        self.server.asked.append(self.path)
        page = self.server.pages.get(self.path.removeprefix("/latest/meta-data/"))
        return self._answer(404, "") if page is None else self._answer(200, page)

    def _answer(self, status: int, text: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the class above
        """Print nothing."""


@contextmanager
def serving() -> Generator[MetadataServer]:
    with MetadataServer() as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        yield server
        server.shutdown()
