"""A small registry of modules that really runs: https on loopback, service discovery, versions and downloads."""

import contextlib
import http.server
import json
import ssl
import threading
from collections.abc import Generator
from pathlib import Path

from tests.machine.certificates import certificate


class ModuleRegistry:
    """A registry with modules by their paths. A test may change everything between requests."""

    def __init__(self, url: str, ca: Path) -> None:
        self.url, self.ca = url, ca
        self.host = url.removeprefix("https://")
        self.versions: dict[str, dict[str, str]] = {}
        """The location of each version, by module: `acme/network/aws` → {"1.0.0": "…"}."""
        self.files: dict[str, bytes] = {}
        """What can be downloaded, by its path."""
        self.redirects: dict[str, str] = {}
        self.token = ""
        """What a request for a module must have as its bearer token; '' lets everybody in."""
        self.service: object = "/v1/modules/"
        self.requests: list[tuple[str, str | None]] = []
        """The path and the Authorization header of each request."""

    def address(self, path: str = "acme/network/aws") -> str:
        return f"{self.host}/{path}"

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, str], bytes]:
        self.requests.append((path, authorization))
        if path in self.redirects:
            return 302, {"Location": self.redirects[path]}, b""
        if path == "/.well-known/terraform.json":
            return 200, {}, json.dumps({"modules.v1": self.service}).encode()
        if path in self.files:
            return 200, {}, self.files[path]
        if self.token and authorization != f"Bearer {self.token}":
            return 401, {}, b""
        name, _, rest = path.removeprefix("/v1/modules/").rpartition("/")
        if rest == "versions" and name in self.versions:
            listed = [{"version": version} for version in self.versions[name]]
            return 200, {}, json.dumps({"modules": [{"versions": listed}]}).encode()
        module, _, version = name.rpartition("/")
        if rest == "download" and version in self.versions.get(module, {}):
            return 204, {"X-Terraform-Get": self.versions[module][version]}, b""
        return 404, {}, b""


@contextlib.contextmanager
def running(folder: Path) -> Generator[ModuleRegistry]:
    folder.mkdir(parents=True)
    crt, key = certificate(folder)
    made: ModuleRegistry

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = made.answer(self.path, self.headers.get("Authorization"))
            self.send_response(status)
            for name, text in headers.items():
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name of the class above)
            pass

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(crt, key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    made = ModuleRegistry(f"https://localhost:{server.server_address[1]}", crt)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
