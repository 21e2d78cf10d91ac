"""Hands the listening socket from one server process to the next, so that connections wait for it instead of being refused.

The kernel completes connections as long as somebody has the socket, and queues them until a process accepts them. A supervisor
that keeps the socket (a socket unit of systemd) passes it to each server by the protocol of `sd_listen_fds`. Without one, a server
that gets SIGUSR2 executes its own command again in the same process, and passes the socket to itself.
"""

import os
import socket
import stat
import sys
from collections.abc import MutableMapping, Sequence
from typing import NoReturn

from terracrew.errors import Invalid
from terracrew.logging import get_logger
from terracrew.server.process import serve
from terracrew.settings.server import ServerSettings

PASSED_DESCRIPTOR = 3
"""The first descriptor that is passed, by `sd_listen_fds`. There is no other one here."""
log = get_logger("terracrew.server")
PID, COUNT, NAMES = "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"


def open_listener(given: ServerSettings) -> tuple[socket.socket, ServerSettings]:
    """Return the socket that was passed to this process, or a new one, and the settings with its address."""
    passed = inherited(os.environ)
    if passed is None:
        made = serve.bind(given)
        return made, given.model_copy(update={"port": made.getsockname()[1]})
    host, port = passed.getsockname()[:2]
    if given.port not in (0, port):
        log.warning(
            "the socket that was passed to this server counts, not its setting", socket=port, setting=given.port
        )
    return passed, given.model_copy(update={"host": host, "port": port})


def inherited(environment: MutableMapping[str, str]) -> socket.socket | None:
    """Return the socket that was passed to this process, or None. Children of this process do not get it."""
    given = {name: environment.pop(name, "") for name in (PID, COUNT, NAMES)}
    if given[PID] != str(os.getpid()):
        return None  # the variables are meant for a parent of this process
    if given[COUNT] != "1":
        raise Invalid(
            f"{COUNT} is {given[COUNT]!r}, and a server listens on one socket: write one ListenStream= into the socket unit"
        )
    if not stat.S_ISSOCK(os.fstat(PASSED_DESCRIPTOR).st_mode):
        raise Invalid(f"descriptor {PASSED_DESCRIPTOR}, which was passed to this server, is not a socket")
    os.set_inheritable(PASSED_DESCRIPTOR, False)
    passed = socket.socket(fileno=PASSED_DESCRIPTOR)
    is_listening = passed.type == socket.SOCK_STREAM and passed.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if not is_listening or passed.family not in (socket.AF_INET, socket.AF_INET6):
        passed.close()
        raise Invalid(
            "the socket that was passed to this server does not listen on an address and a port: "
            "write `ListenStream=127.0.0.1:7400` and `Accept=no` into the socket unit"
        )
    return passed


def execute_again(listener: socket.socket, command: Sequence[str] = ()) -> NoReturn:
    """Replace this process by a new server that gets its socket. The process id stays, so a supervisor sees no restart."""
    os.dup2(listener.fileno(), PASSED_DESCRIPTOR)
    os.set_inheritable(PASSED_DESCRIPTOR, True)
    environment = os.environ | {PID: str(os.getpid()), COUNT: "1"}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *(command or sys.orig_argv[1:])], environment)  # noqa: S606 (its own command)
