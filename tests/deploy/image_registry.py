"""A registry of images on loopback that takes what `docker push` sends, and keeps nothing but hashes and manifests."""

import hashlib
import threading
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ImageRegistry(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.blobs: set[str] = set()
        self.uploads: dict[str, bytes] = {}
        self.manifests: dict[str, bytes] = {}
        """By name and tag: `terracrew-runner:1`."""

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ImageRegistry  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_GET(self) -> None:
        self._answer(200 if self.path == "/v2/" else 404)

    def do_HEAD(self) -> None:
        self._answer(200 if self.path.rpartition("/")[2] in self.server.blobs else 404)

    def do_POST(self) -> None:
        self._body()
        upload = uuid.uuid4().hex
        self.server.uploads[upload] = b""
        self._answer(202, Location=f"{self.path.partition('?')[0]}{upload}", Range="0-0")

    def do_PATCH(self) -> None:
        content = self._body()  # a layer or a configuration as a whole
        self.server.uploads[self.path.rpartition("/")[2]] = content
        self._answer(202, Location=self.path, Range=f"0-{len(content) - 1}")

    def do_PUT(self) -> None:
        content = self._body()
        path, _, query = self.path.partition("?")
        _, _, last = path.rpartition("/")
        if "/manifests/" in path:
            name = path.split("/manifests/")[0].removeprefix("/v2/")
            self.server.manifests[f"{name}:{last}"] = content
            return self._answer(201, **{"Docker-Content-Digest": f"sha256:{hashlib.sha256(content).hexdigest()}"})
        digest = f"sha256:{hashlib.sha256(self.server.uploads.pop(last) + content).hexdigest()}"
        assert digest.replace(":", "%3A") in query
        self.server.blobs.add(digest)
        return self._answer(201, Location=path, **{"Docker-Content-Digest": digest})

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        content = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            content += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return content

    def _answer(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            "Docker-Distribution-Api-Version": "registry/2.0",
            **headers,
            "Content-Length": "0",
        }.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@contextmanager
def running() -> Generator[ImageRegistry]:
    with ImageRegistry() as registry:
        thread = threading.Thread(target=registry.serve_forever, daemon=True)
        thread.start()
        try:
            yield registry
        finally:
            registry.shutdown()
            thread.join()
