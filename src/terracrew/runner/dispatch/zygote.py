"""The helper process that executors are forked from: it has imported everything, has one thread and holds no secret.

It is handed one descriptor a start, from which only the child reads; so later children inherit nothing of earlier ones.
It ends when the runner's end of the socket closes, and its children go on. An executor that is not in a cgroup is forked
from a child of the helper, its subreaper, which knows when the last process of the attempt has ended.
"""

import argparse
import contextlib
import errno
import fcntl
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from terracrew import procfs
from terracrew.attempt import directories, processes
from terracrew.attempt.processes import ProcessRecord
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch import subreaper
from terracrew.runner.processes import cgroups

Entry = Callable[[ExecutorStart], int]
START = 8
"""A start is the number of the start, in so many bytes, the directory of a cgroup (or nothing), and a descriptor."""
START_LIMIT = START + 4096
IN_USE = 75
"""Exit code of a child that found its attempt in other hands."""
CRASHED = 70
ANSWER_LIMIT = 4096
_BEGIN_SECONDS = 10.0
"""How long a child may take to say which process it is; one that is stopped before it does must not stop the others."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """Comes with a pidfd, before the process is waited for."""

    number: int
    process: ProcessRecord


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    number: int
    reason: str


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    number: int
    code: int
    """Negative: the signal that ended it."""


_encode = msgspec.json.Encoder().encode
Answer = Started | Failed | Exited
decode = msgspec.json.Decoder(Answer).decode
_decode_start = msgspec.json.Decoder(ExecutorStart).decode
_decode_process = msgspec.json.Decoder(ProcessRecord).decode


def serve(runner: socket.socket, entry: Entry) -> None:
    """Fork on request until the runner is gone."""
    children: dict[int, int] = {}  # pidfd → number of the start
    poll = select.poll()
    poll.register(runner, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready != runner.fileno():
                poll.unregister(ready)
                code = _reap(ready)
                runner.send(_encode(Exited(children.pop(ready), code)))
                continue
            request, handed, _, _ = socket.recv_fds(runner, START_LIMIT, 1)
            if not request:
                return
            number, cgroup = int.from_bytes(request[:START]), os.fsdecode(request[START:])
            if (pidfd := _start(runner, number, handed[0], cgroup, entry)) is not None:
                children[pidfd] = number
                poll.register(pidfd, select.POLLIN)


def _start(runner: socket.socket, number: int, specification: int, cgroup: str, entry: Entry) -> int | None:
    """Fork; a descriptor of the child, which is the executor or its subreaper."""
    ours, theirs = socket.socketpair()
    try:
        pid, is_inside = _fork(cgroup)
    except OSError as error:
        os.close(specification)
        ours.close()
        theirs.close()
        runner.send(_encode(Failed(number, f"no process could be started: {error.strerror}")))
        return None
    if pid == 0:
        _child(specification, theirs, cgroup, is_inside, entry)
    os.close(specification)
    theirs.close()
    with ours:
        if (process := _begun(ours)) is None:
            os.kill(pid, signal.SIGKILL)  # nothing of it runs: what cannot say that it has begun does not begin
            os.waitpid(pid, 0)
            runner.send(_encode(Failed(number, "the new process ended before it had begun")))
            return None
        executor = os.pidfd_open(process.pid)
    socket.send_fds(runner, [_encode(Started(number, process))], [executor])
    if process.pid == pid:
        return executor
    os.close(executor)
    return os.pidfd_open(pid)


def _fork(cgroup: str) -> tuple[int, bool]:
    """Fork; whether the child is in the cgroup from the start."""
    if cgroup:
        with contextlib.suppress(OSError):  # an older kernel, or one that a sandbox hides; an ordinary fork may do
            return cgroups.fork_into(cgroup), True
    return os.fork(), False


def _begun(child: socket.socket) -> ProcessRecord | None:
    """What the new executor says about itself; None where it ended before, or does not answer."""
    child.settimeout(_BEGIN_SECONDS)
    try:
        said = child.recv(ANSWER_LIMIT)
    except OSError:
        return None
    return _decode_process(said) if said else None


def _reap(pidfd: int) -> int:
    ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    os.close(pidfd)
    assert ended is not None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _child(specification: int, helper: socket.socket, cgroup: str, is_inside: bool, entry: Entry) -> None:
    """Become the executor; never returns to the helper's own loop."""
    code = CRASHED
    try:
        process = _separate(specification, helper, cgroup, is_inside)
        helper.close()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        gc.enable()
        with open(specification, "rb") as file:
            file.seek(0)
            start = _decode_start(file.read())
        code = _execute(start, process, entry)
    except OSError as error:
        if error.errno == errno.ENOSPC:  # the runner starts a delivery again until there is room
            print(f"an executor cannot start: {error}", file=sys.stderr)
        else:
            traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _separate(specification: int, helper: socket.socket, cgroup: str, is_inside: bool) -> ProcessRecord:
    """Lead a session, hold nothing that is not one's own, and be where everything that one starts is found again."""
    os.setsid()
    first, second = sorted((specification, helper.fileno()))
    os.closerange(3, first)
    os.closerange(first + 1, second)
    os.closerange(second + 1, os.sysconf("SC_OPEN_MAX"))
    if is_inside or (cgroup and cgroups.join(cgroup)):
        process = processes.of(os.getpid(), cgroup=cgroup)
    else:
        parent = processes.identity(os.getpid())
        procfs.become_subreaper()
        if executor := os.fork():
            os.close(specification)
            subreaper.watch_over(executor, helper)
        os.setsid()
        process = processes.of(os.getpid(), subreaper=parent)
    helper.send(_encode(process))
    return process


def _execute(start: ExecutorStart, process: ProcessRecord, entry: Entry) -> int:
    directory = Path(start.directory)
    # Held until this process ends: of two salvages of one attempt, only one touches its files.
    try:
        lock = os.open(directory / directories.LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:  # we were so late that it was handed back, and its directory removed
        return IN_USE
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return IN_USE
    if not directories.sign(directory, msgspec.structs.replace(process, is_salvage=start.is_salvage)):
        return IN_USE
    os.chdir(directory)
    log = os.open(directories.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
    return entry(start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entry", required=True, help="module:function that runs one attempt")
    parser.add_argument("--engine-path", action="append", default=[], help="where engines are looked for before PATH")
    parser.add_argument("--socket", type=int, required=True, help="descriptor of the socket to the runner")
    arguments = parser.parse_args()
    procfs.forbid_inspection()  # and with it, every executor that is forked from here
    name, _, function = arguments.entry.partition(":")
    module = importlib.import_module(name)
    entry: Entry = getattr(module, function)
    if warm := getattr(module, "warm", None):
        warm(arguments.engine_path)  # what every child would otherwise find out for itself
    runner = socket.socket(fileno=arguments.socket)
    os.set_inheritable(runner.fileno(), False)
    gc.collect()
    gc.disable()
    gc.freeze()  # so that the collector of a child does not copy every page that it could share
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        serve(runner, entry)


if __name__ == "__main__":
    main()
