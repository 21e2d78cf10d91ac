"""A proxy that answers uploads itself for a while: nothing is lost, nothing is repeated, and somebody says why it takes so long."""

import contextlib
import itertools
import socket
import threading
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.e2e.system import System, eventually
from tests.thoroughness import thorough

MAIN = """
resource "terraform_data" "large" {
  input = join("", [for i in range(1000) : join("", [for j in range(60) : "0123456789012345678901234567890123456789"])])
  provisioner "local-exec" { command = "echo applied >> @WITNESS@" }
}
"""
ANSWERS = ("413 Request Entity Too Large", "404 Not Found", "403 Forbidden", "401 Unauthorized", "200 OK", "302 Found")


class RefusingProxy:
    """Passes every connection on, except those whose first request is a PUT, as long as it is told to refuse."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.is_refusing = True
        self.refused = list[str]()
        self._answers = itertools.cycle(ANSWERS)

    @contextlib.contextmanager
    def serving(self) -> Generator["RefusingProxy"]:
        threading.Thread(target=self._accept, daemon=True).start()
        try:
            yield self
        finally:
            self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        head = b""
        with contextlib.suppress(OSError), client:
            while b"\r\n\r\n" not in head:
                if not (piece := client.recv(65536)):
                    return
                head += piece
            if self.is_refusing and head.startswith(b"PUT "):
                answer = next(self._answers)
                page = "Content-Type: text/html\r\nServer: proxy\r\nLocation: /login\r\nContent-Length: 6\r\nConnection: close"
                client.sendall(f"HTTP/1.1 {answer}\r\n{page}\r\n\r\n<html>".encode())
                self.refused.append(answer)
                return
            with socket.create_connection(("127.0.0.1", self._server_port)) as server:
                server.sendall(head)
                threading.Thread(target=_pump, args=(client, server), daemon=True).start()
                _pump(server, client)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    for each in (source, target):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@pytest.mark.feature("J15.kept", "O1.continues")
@pytest.mark.timeout(150)
@thorough
def test_an_apply_whose_state_a_proxy_refuses_is_made_once_and_succeeds_when_the_proxy_heals(
    system: System, tmp_path: Path
) -> None:
    """Seen: a proxy's 413 was taken for the server's word; five attempts, the provisioner ran five times, FAILED, no state."""
    witness = tmp_path / "witness"
    system.start_server(runner=False)
    credentials = system.register_runner()
    with RefusingProxy(system.port).serving() as proxy:
        server, system.url = system.url, proxy.url
        system.start_runner(credentials)
        system.url = server
        system.module("app", MAIN.replace("@WITNESS@", str(witness)))
        job = system.run("app", "APPLY")
        eventually(lambda: len(proxy.refused) >= 4, what="four refusals")
        waiting = system.job(job)
        assert waiting["status"] == "PROCESSING"
        assert [attempt["number"] for attempt in waiting["attempts"]] == [1]
        [log] = system.runner_directory().glob("attempts/*/executor.log")
        assert "the upload of states/" in log.read_text()
        assert (
            "answered 413 Request Entity Too Large by something that is not a Terracrew server (proxy)"
            in log.read_text()
        )
        proxy.is_refusing = False
        ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", ended["message"]
    assert [(attempt["number"], attempt["is_in_doubt"]) for attempt in ended["attempts"]] == [(1, False)]
    assert witness.read_text().split() == ["applied"]
    assert len(system.state("app")["resources"][0]["instances"][0]["attributes"]["input"]["value"]) == 2_400_000
    assert not list(system.runner_directory().glob("undelivered/*"))
