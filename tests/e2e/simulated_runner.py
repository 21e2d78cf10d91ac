"""Clients that speak the real protocol by hand, so that they can also speak it wrongly."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3
from websockets.sync.client import ClientConnection, connect

from terracrew.protocol import events, frames, messages, version
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.spec import Step
from tests.builders import deliveries
from tests.e2e.system import System


class Client:
    """One connection to the hub."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self._grants = 0

    def send(self, message: msgspec.Struct) -> None:
        self.socket.send(messages.encode(message).decode())

    def get(self, timeout: float = 30) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.socket.recv(timeout))
        self._grants += found["type"] == "granted"
        return found

    def send_credits(self, slots: int = 1) -> None:
        """Say that this many jobs may be granted to this runner."""
        self.send(messages.Credits(slots, self._grants))

    def ask(self, message: msgspec.Struct, timeout: float = 30) -> dict[str, Any]:
        self.send(message)
        return self.get(timeout)

    def wait_for(self, kind: str, timeout: float = 30) -> dict[str, Any]:
        while (found := self.get(timeout))["type"] != kind:
            pass
        return found


@contextmanager
def hub(system: System, token: str) -> Generator[Client]:
    with connect(
        system.url.replace("http", "ws") + "/runnerhub",
        additional_headers={"Authorization": f"Bearer {token}"},
        max_size=messages.MAX_GRANT_FRAME_BYTES,
        compression=None,
    ) as socket:
        yield Client(socket)


@contextmanager
def beating(runner: Client, *attempts: AttemptRef) -> Generator[None]:
    """Heartbeats that name these attempts, for as long as a test needs the runner to be there."""
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.wait(5):
            runner.send(messages.Heartbeat("0.1.0", False, list(attempts)))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def runner_token(system: System, credentials: dict[str, str]) -> str:
    organization, worker = credentials["TERRACREW_RUNNER__ORGANIZATION_ID"], credentials["TERRACREW_RUNNER__ID"]
    form = {
        "grant_type": "client_credentials",
        "client_id": f"{organization}:{worker}",
        "client_secret": credentials["TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN"],
    }
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = urllib3.request("POST", f"{system.url}/connect/token", body=urlencode(form), headers=headers)
    assert answer.status == 200, answer.data
    return answer.json()["access_token"]


def runner_hello(credentials: dict[str, str], **changes: Any) -> messages.RunnerHello:
    return deliveries.runner_hello(credentials["TERRACREW_RUNNER__ID"], **changes)


def executor_hello(ref: AttemptRef, **changes: Any) -> messages.ExecutorHello:
    hello = messages.ExecutorHello(ref.job_id, ref.attempt, "0.1.0", version.OLDEST_VERSION, version.NEWEST_VERSION)
    return msgspec.structs.replace(hello, **changes)


def claim(runner: Client, job_id: str) -> Granted:
    """Send a credit, and wait for the grant of a job."""
    runner.send_credits()
    granted = msgspec.convert(runner.wait_for("granted"), Granted, strict=False)
    assert granted.spec.job_id == job_id
    return granted


def batch(first: int, *facts: events.Fact | str) -> bytes:
    """A frame of events: facts, and strings as lines of the log."""
    records = [
        events.pack(events.Kind.LOG, events.Stream.OUTPUT, Step.PLAN, 1.0, fact.encode())
        if isinstance(fact, str)
        else events.pack_fact(fact, Step.PLAN, 1.0)
        for fact in facts
    ]
    return frames.pack(first, len(records), b"".join(records))
