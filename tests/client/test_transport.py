"""The way to a server: directly, or through the proxy that the environment names."""

import base64
import threading
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from terracrew.client import hub, transport
from terracrew.client.http import Api
from terracrew.errors import Invalid, Unreachable


class Proxy(BaseHTTPRequestHandler):
    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Proxy-Authorization", "")))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, str]]]:
    """A proxy with a password that serves the environment's requests; what it was asked for."""
    asked: list[tuple[str, str]] = []
    with HTTPServer(("127.0.0.1", 0), type("Recording", (Proxy,), {"asked": asked})) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv("http_proxy", f"http://crew:p%40ss@127.0.0.1:{server.server_port}")
        monkeypatch.setenv("no_proxy", "inside.example,.corp.example:8080")
        yield asked
        server.shutdown()
        thread.join()


def test_a_request_goes_through_the_proxy_with_its_password(proxy: list[tuple[str, str]]) -> None:
    """Only downloads of engines sent the password of a proxy: with it, runners and the command line were answered 407."""
    assert Api("http://terracrew.example").is_ready()
    with transport.pool("http://terracrew.example:8000/releases") as pool:
        assert pool.request("GET", "http://terracrew.example:8000/releases", retries=False).status == 200
    login = "Basic " + base64.b64encode(b"crew:p@ss").decode()
    assert proxy == [("http://terracrew.example/readyz", login), ("http://terracrew.example:8000/releases", login)]


@pytest.mark.parametrize(
    "host", ["inside.example", "inside.example:7400", "a.corp.example:8080", "user@inside.example"]
)
def test_a_host_that_no_proxy_names_is_reached_directly(proxy: list[tuple[str, str]], host: str) -> None:
    assert transport.proxy_for(f"http://{host}/api") is None
    assert transport.proxy_for("http://a.corp.example:9090/") is not None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.0.0.9", "[::1]"])
def test_this_machine_is_never_reached_through_a_proxy(proxy: list[tuple[str, str]], host: str) -> None:
    assert transport.proxy_for(f"http://{host}:7400") is None
    assert transport.websocket_proxy(hub.address(f"http://{host}:7400")) is None
    assert transport.websocket_proxy(hub.address("http://terracrew.example")) is True


def test_a_proxy_that_is_not_a_url_is_refused_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "ftp://crew:secret@proxy.example")
    with pytest.raises(Invalid, match="https_proxy is not a URL like") as refused:
        transport.pool("https://terracrew.example")
    assert "secret" not in refused.value.message


async def test_a_proxy_that_websockets_cannot_use_is_refused_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """HTTP ignores the path of a proxy's URL. The error of the WebSocket quoted the whole URL, and the runner logged it."""
    monkeypatch.setenv("https_proxy", "http://crew:secret@proxy.example:3128/path")
    with pytest.raises(Unreachable, match="is not a URL like") as refused:
        await hub.connect("https://terracrew.example", "token")
    assert "secret" not in "".join(traceback.format_exception(refused.value))
