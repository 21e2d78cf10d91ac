"""Holds engines that run in containers and pods in the middle of their change, until the test lets them go."""

import socket
from typing import Self

_HELD = """
resource "terraform_data" "paid" { input = "a database" }
resource "terraform_data" "slow" {
  input = terraform_data.paid.output
  provisioner "local-exec" { command = "echo at the gate; nc %s %d" }
}
output "said" { value = terraform_data.paid.output }
"""


class WaitingRoom:
    """Holds a provisioner that connects to its port, until the test lets it go."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self._listener = socket.create_server((address, 0))
        self._waiting: socket.socket | None = None
        self.module = _HELD % self._listener.getsockname()[:2]
        """A module whose apply waits here."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        if self._waiting:
            self._waiting.close()

    def reached(self, within: float) -> None:
        self._listener.settimeout(within)
        self._waiting, _ = self._listener.accept()

    def open(self) -> None:
        assert self._waiting
        self._waiting.close()
