"""The process that forks: it imports what commands need, and each request makes one child that runs a module as `__main__`.

It has no thread, opens nothing and makes no random number before it forks, so a child shares nothing with another one.
"""

import array
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import socket
import sys
from typing import NamedTuple

from terracrew.server import app

# What a command imports while it runs, beside what these modules import themselves.
IMPORTED = (
    "terracrew.cli.main",
    "terracrew.cli.commands.up",
    "terracrew.cli.commands.job.job",
    "terracrew.cli.commands.runner.runner",
    "terracrew.cli.commands.server.server",
    "terracrew.cli.commands.server.serve",
    "terracrew.client.http",
    "terracrew.server.main",
    "terracrew.server.db.sqlite.database",
    "terracrew.settings.server_layers",
    "asyncpg",
    "terracrew.server.db.postgres.database",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.websockets_impl",
)
MAX_REQUEST_BYTES = 1 << 17


class Child(NamedTuple):
    """What a fork becomes."""

    module: str
    arguments: list[str]


class ForkServer:
    def __init__(self, requests: socket.socket) -> None:
        self._requests = requests
        self._selector = selectors.DefaultSelector()
        self._selector.register(requests, selectors.EVENT_READ)
        self._running: dict[int, tuple[int, socket.socket]] = {}
        """By the descriptor that tells the end of a child: the child, and who waits for its exit code."""

    def serve(self) -> Child | None:
        """Fork for each request. Return in every child what it is to run; return None when nobody can ask any more."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is not self._requests:
                    self._report(key.fd)
                    continue
                message, received, _, _ = socket.recv_fds(self._requests, MAX_REQUEST_BYTES, 3)
                if not message:
                    return None
                if child := self._fork(json.loads(message), received):
                    return child

    def _fork(self, request: dict[str, object], received: list[int]) -> Child | None:
        stdout, stderr, answers = received
        pid = os.fork()
        if pid == 0:
            self._leave()
            os.setsid()
            os.dup2(stdout, 1)
            os.dup2(stderr, 2)
            for descriptor in received:
                os.close(descriptor)
            os.chdir(str(request["cwd"]))
            sys.path[0] = str(request["cwd"])  # as `python -m` has it
            environment: dict[str, str] = request["env"]  # pyright: ignore[reportAssignmentType]
            os.environ.clear()
            os.environ.update(environment)
            return Child(str(request["module"]), request["arguments"])  # pyright: ignore[reportArgumentType]
        os.close(stdout)
        os.close(stderr)
        asked_by = socket.socket(fileno=answers)
        end = os.pidfd_open(pid)
        self._running[end] = pid, asked_by
        self._selector.register(end, selectors.EVENT_READ)
        asked_by.send(array.array("q", [pid]).tobytes())
        return None

    def _report(self, end: int) -> None:
        pid, asked_by = self._running.pop(end)
        self._selector.unregister(end)
        os.close(end)
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(OSError):  # the test has ended and did not wait
            asked_by.send(array.array("q", [os.waitstatus_to_exitcode(status)]).tobytes())
        asked_by.close()

    def _leave(self) -> None:
        """Close in a child what belongs to the server and to other children."""
        self._selector.close()
        self._requests.close()
        for end, (_, asked_by) in self._running.items():
            os.close(end)
            asked_by.close()
        self._running.clear()


def prepare_app() -> None:
    """Make the application that the first server of each child attaches to itself: making one takes as long as a start without it."""
    made, make_another = [app.make_unattached_app()], app.make_unattached_app
    app.make_unattached_app = lambda: made.pop() if made else make_another()


def main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    requests.set_inheritable(False)
    for module in IMPORTED:
        importlib.import_module(module)
    prepare_app()
    gc.freeze()  # a collection would otherwise write to, and so copy, every page of what was imported
    if child := ForkServer(requests).serve():
        # The name of the program is the only thing of this process that a command could print.
        sys.argv = ["terracrew", *child.arguments]
        runpy.run_module(child.module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
