"""A real git server: `git http-backend` behind https on loopback, with a certificate that only a test trusts."""

import base64
import contextlib
import http.server
import os
import ssl
import subprocess
import threading
from collections.abc import Callable, Generator
from pathlib import Path

from tests.machine.certificates import certificate

Answered = tuple[int, list[tuple[str, str]], bytes]
"""A status, headers and a body."""


def _by_git(_method: str, _address: str, _headers: dict[str, str], _body: bytes) -> Answered | None:
    return None


class GitHttps:
    """Serves all repositories below a folder."""

    def __init__(self, root: Path, url: str, ca: Path) -> None:
        self.root, self.url, self.ca = root, url, ca
        self.login = ""
        """`name:password` that every request must have; '' lets everybody in."""
        self.hangs_on = ""
        """Requests with this in their address are never answered."""
        self.stops_after = 0
        """How many bytes of a pack are sent before the server hangs; 0 means that it does not hang."""
        self.stopped = threading.Event()
        """It has sent the first part of a pack, and hangs now."""
        self.fails_with = 0
        """The status of every answer; 0 means that requests are answered."""
        self.redirects_to = ""
        """The address that every answer redirects to; '' means that requests are answered."""
        self.is_old = False
        """Whether it speaks only the first version of git's protocol, in which commits are not given out by their ids."""
        self.instead: Callable[[str, str, dict[str, str], bytes], Answered | None] = _by_git
        """Answers in place of git where it returns something: the API of the forge that the repositories are on. It gets the method,
        the address, the headers and the body."""
        self.requests: list[str] = []
        self.ending = threading.Event()

    def of(self, name: str) -> str:
        return f"{self.url}/{name}"

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs in its environment to trust the server."""
        return {"GIT_SSL_CAINFO": str(self.ca), "SSL_CERT_FILE": str(self.ca)}


@contextlib.contextmanager
def running(root: Path) -> Generator[GitHttps]:
    folder = root / ".server"
    folder.mkdir(parents=True)
    crt, key = certificate(folder)
    served: GitHttps

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer()

        def do_POST(self) -> None:
            self._answer()

        def do_PATCH(self) -> None:
            self._answer()

        def _answer(self) -> None:
            served.requests.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if served.hangs_on and served.hangs_on in self.path:
                served.ending.wait(60)
                self.close_connection = True
                return
            if served.fails_with:
                self._send(served.fails_with, [], b"")
                return
            if served.redirects_to:
                rest = self.path.partition("/info/")
                self._send(301, [("Location", f"{served.redirects_to}{rest[1]}{rest[2]}")], b"")
                return
            headers = {name.lower(): value for name, value in self.headers.items()}
            if (answer := served.instead(self.command, self.path, headers, body)) is not None:
                self._send(*answer)
                return
            login = "Basic " + base64.b64encode(served.login.encode()).decode()
            if served.login and self.headers.get("Authorization") != login:
                self._send(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
                return
            path, _, query = self.path.partition("?")
            env = {
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type") or "",
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "",
                "GIT_PROTOCOL": "" if served.is_old else self.headers.get("Git-Protocol") or "",
                "GIT_CONFIG_GLOBAL": os.devnull,
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
                "REMOTE_ADDR": "127.0.0.1",
            }
            done = subprocess.run(["git", "http-backend"], env=env, input=body, capture_output=True, check=False)
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            fields = [line.split(": ", 1) for line in head.decode().split("\r\n") if line]
            status = next((int(text.split()[0]) for name, text in fields if name == "Status"), 200)
            self._send(status, [(name, text) for name, text in fields if name != "Status"], content)

        def _send(self, status: int, fields: list[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            for name, text in fields:
                self.send_header(name, text)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if served.stops_after and b"PACK" in content:
                self.wfile.write(content[: served.stops_after])
                served.stopped.set()
                served.ending.wait(60)
                self.close_connection = True
                return
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name of the class above)
            pass

        def handle(self) -> None:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                super().handle()

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def get_request(self) -> tuple[ssl.SSLSocket, tuple[str, int]]:
            sock, address = super().get_request()
            # The handshake is made by the thread of the connection, so that one client cannot stop the others.
            return tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False), address

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(crt, key)
    server = Server(("127.0.0.1", 0), Handler)
    served = GitHttps(root, f"https://localhost:{server.server_address[1]}", crt)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield served
    finally:
        served.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()
