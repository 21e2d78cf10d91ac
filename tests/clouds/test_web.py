"""Documents from the web: the connection goes to the address that was checked, and the certificate is that of the name."""

import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from terracrew.clouds import web
from terracrew.clouds.contract import CloudSilent
from tests.machine.certificates import certificate


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The port of a server on this machine whose certificate is for `localhost`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = f"{self.headers['Host']} {self.path} ".encode() + b"x" * 2 * web.MAX_BODY_BYTES
            self.send_response(302)
            self.send_header("Location", "https://127.0.0.1:1/")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is inherited
            """Print nothing."""

    crt, key = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(crt))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(crt, key)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def test_a_name_is_read_at_the_address_that_was_checked(port: int) -> None:
    found = web.fetch_at("127.0.0.1", f"https://localhost:{port}/v2/x?y=1", {})
    assert found.body.startswith(f"localhost:{port} /v2/x?y=1 ".encode())
    assert found.status == 302, "a redirect is not followed"
    assert len(found.body) == web.MAX_BODY_BYTES, "a long answer is cut"


def test_a_certificate_for_another_name_is_refused(port: int) -> None:
    with pytest.raises(CloudSilent, match="doesn't match"):
        web.fetch_at("127.0.0.1", f"https://registry.example:{port}/", {})


@pytest.mark.parametrize(
    "url", ["https://localhost/", "https://10.0.0.1/", "http://8.8.8.8/", "https://no.invalid/", "x"]
)
async def test_what_is_not_public_is_not_asked(url: str) -> None:
    with pytest.raises(CloudSilent, match=r"no (public )?address here"):
        await web.fetch_public(url, {})
