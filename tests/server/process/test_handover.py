"""A restart is not seen by clients that try nothing again, if the listening socket survives it."""

import contextlib
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terracrew.errors import Invalid
from terracrew.server.process import handover
from tests.e2e.system import eventually
from tests.machine.needs import need
from tests.server.process.restarting import ImpatientClient, RestartedServer, held_socket
from tests.thoroughness import IS_THOROUGH, thorough

RESTARTS = 3 if IS_THOROUGH else 1


@pytest.fixture
def held() -> Iterator[socket.socket]:
    with held_socket() as listener:
        yield listener


@pytest.fixture
def supervised(tmp_path: Path, held: socket.socket) -> Iterator[RestartedServer]:
    """A server whose socket a supervisor keeps."""
    server = RestartedServer(tmp_path, held=held)
    yield server
    server.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[RestartedServer]:
    server = RestartedServer(tmp_path)
    yield server
    server.close()


def several(client: ImpatientClient, restart: Callable[[], float]) -> list[float]:
    """Restart the server several times; return how long each restart took."""
    eventually(lambda: client.is_kept and client.answered, what="the first answers")
    durations: list[float] = []
    for _ in range(RESTARTS):
        durations.append(restart())
        client.catch_up()
    return durations


def check(client: ImpatientClient, durations: list[float]) -> None:
    """Check that every request was answered, none much later than the longest restart, and that requests came during the restarts."""
    assert client.failures == []
    assert max(client.answered) < max(durations) * 1.5 + 2.0, "some waited much longer than the restart took"
    late = [each for each in client.answered if each > min(durations) / 4]
    assert len(late) > 10 * len(durations), "hardly a request was made while nobody served"
    assert client.reconnected >= len(durations)


@pytest.mark.feature("O6.restart")
@pytest.mark.timeout(180)
def test_a_restart_is_not_seen_where_a_supervisor_keeps_the_socket(supervised: RestartedServer) -> None:
    supervised.start()
    supervised.wait_until_serving()
    client = ImpatientClient(supervised.port, supervised.token)
    with client.asking():
        durations = several(client, supervised.replace)
    check(client, durations)


@pytest.mark.feature("O6.restart")
@pytest.mark.timeout(180)
def test_a_restart_by_a_signal_is_not_seen(alone: RestartedServer) -> None:
    alone.start()
    alone.wait_until_serving()
    assert alone.child is not None
    client = ImpatientClient(alone.port, alone.token)
    with client.asking():
        durations = several(client, alone.execute_again)
    check(client, durations)
    assert alone.child.poll() is None, "it is the same process"
    assert Path(f"/proc/{alone.child.pid}/task/{alone.child.pid}/children").read_text() == "", "no child is left behind"
    alone.child.send_signal(signal.SIGTERM)
    assert alone.child.wait(60) == 0


@thorough
@pytest.mark.timeout(120)
def test_requests_wait_for_the_successor_of_a_server_that_was_killed(supervised: RestartedServer) -> None:
    supervised.start()
    supervised.wait_until_serving()
    token = supervised.token
    assert supervised.child is not None
    supervised.child.kill()
    supervised.child.communicate()
    client = ImpatientClient(supervised.port, token)
    with client.asking():
        time.sleep(0.5)
        supervised.start()
        supervised.wait_until_serving()
    assert client.failures == []
    assert len(client.answered) > 10


@thorough
@pytest.mark.timeout(120)
def test_the_real_activation_of_systemd_passes_the_socket(alone: RestartedServer) -> None:
    program = shutil.which("systemd-socket-activate")
    need(None if program else "no systemd-socket-activate here")
    alone.before = ["systemd-socket-activate", f"--listen=127.0.0.1:{alone.port}"]
    alone.before += [f"--setenv={name}" for name in os.environ]  # it passes on nothing by itself
    alone.start()
    eventually(lambda: is_open(alone.port), what="its socket")
    alone.wait_until_serving()  # it was started by the connection
    client = ImpatientClient(alone.port, alone.token)
    with client.asking():
        alone.execute_again()
    assert client.failures == []
    assert client.answered


def is_open(port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=60):
        return True
    return False


def test_variables_of_another_process_mean_nothing() -> None:
    variables = {"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x", "HOME": "/"}
    assert handover.inherited(variables) is None
    assert variables == {"HOME": "/"}


@pytest.mark.parametrize("count", ["0", "2", "", "x"])
def test_anything_but_one_socket_is_refused(count: str) -> None:
    with pytest.raises(Invalid, match="a server listens on one socket"):
        handover.inherited({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": count})
