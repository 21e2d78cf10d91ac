"""The zygote: the process that executors are forked from. It has imported everything, has one thread and holds no secret.

For each start it receives a descriptor with the specification, which only the child reads, so later children inherit nothing of
earlier ones. It ends when the runner's end of the socket closes, and its children continue. An executor that is not in a cgroup is
forked from a child of the zygote, its subreaper, which knows when the last process of the attempt has ended. The executor itself
does everything that does not concern forking, such as taking the attempt's directory (`executor.startup`).
"""

import argparse
import contextlib
import gc
import importlib
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable
from typing import NoReturn

import msgspec

from terracrew.attempt import exit_codes, process_record
from terracrew.attempt.process_record import ProcessRecord
from terracrew.executor import startup
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.processes import cgroups
from terracrew.system import procfs

RunAttempt = Callable[[ExecutorStart, ProcessRecord], int]
"""Runs one attempt in the calling process and returns its exit code. It takes the attempt's directory itself."""
START_NUMBER_BYTES = 8
"""A request consists of the number of the start, the directory of a cgroup (or nothing), and the descriptor of an `ExecutorStart`."""
MAX_REQUEST_BYTES = START_NUMBER_BYTES + 4096
MAX_ANSWER_BYTES = 4096
_IDENTIFY_SECONDS = 10.0
"""How long a child may take to report its identity. A child that was stopped before must not block the others."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """A process was started. The message carries its pidfd, which is valid because nobody has waited for it yet."""

    number: int
    process: ProcessRecord


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    number: int
    reason: str


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    number: int
    code: int
    """The exit code; a negative number is the signal that ended the process."""


_encode = msgspec.json.Encoder().encode
Answer = Started | Failed | Exited
decode = msgspec.json.Decoder(Answer).decode
_decode_start = msgspec.json.Decoder(ExecutorStart).decode
_decode_process = msgspec.json.Decoder(ProcessRecord).decode


def serve(runner: socket.socket, run: RunAttempt) -> None:
    """Fork on request until the runner closes its end of the socket."""
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
            request, handed, _, _ = socket.recv_fds(runner, MAX_REQUEST_BYTES, 1)
            if not request:
                return
            number, cgroup = int.from_bytes(request[:START_NUMBER_BYTES]), os.fsdecode(request[START_NUMBER_BYTES:])
            if (pidfd := _start(runner, number, handed[0], cgroup, run)) is not None:
                children[pidfd] = number
                poll.register(pidfd, select.POLLIN)


def _start(runner: socket.socket, number: int, specification: int, cgroup: str, run: RunAttempt) -> int | None:
    """Fork, and return the pidfd of the child, which is the executor or its subreaper."""
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
        _child(specification, theirs, cgroup, is_inside, run)
    os.close(specification)
    theirs.close()
    with ours:
        if (process := _identity_from(ours)) is None:
            os.kill(pid, signal.SIGKILL)  # it has not taken its directory, because it identifies itself first
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
    """Fork, and return the process id and whether the child is in the cgroup from the start."""
    if cgroup:
        with contextlib.suppress(OSError):  # the kernel is too old, or a sandbox refuses the call
            return cgroups.fork_into(cgroup), True
    return os.fork(), False


def _identity_from(child: socket.socket) -> ProcessRecord | None:
    """Receive the record of the new executor. Returns None if the executor ended before it sent one, or does not answer."""
    child.settimeout(_IDENTIFY_SECONDS)
    try:
        said = child.recv(MAX_ANSWER_BYTES)
    except OSError:
        return None
    return _decode_process(said) if said else None


def _reap(pidfd: int) -> int:
    ended = os.waitid(os.P_PIDFD, pidfd, os.WEXITED)
    os.close(pidfd)
    assert ended is not None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _child(specification: int, zygote: socket.socket, cgroup: str, is_inside: bool, run: RunAttempt) -> None:
    """Become the executor. This function never returns to the zygote's own loop."""

    def run_executor() -> int:
        process = _separate(specification, zygote, cgroup, is_inside)
        zygote.close()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        gc.enable()
        with open(specification, "rb") as file:
            file.seek(0)
            start = _decode_start(file.read())
        return run(start, process)

    code = exit_codes.CRASHED
    try:
        code = startup.exit_code_of(run_executor)
    finally:  # exit even if the traceback cannot be written to a full disk; other threads might keep the process alive
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _separate(specification: int, zygote: socket.socket, cgroup: str, is_inside: bool) -> ProcessRecord:
    """Lead a new session, close inherited descriptors, and enter a cgroup or get a subreaper. Returns the executor's record."""
    os.setsid()
    first, second = sorted((specification, zygote.fileno()))
    os.closerange(3, first)
    os.closerange(first + 1, second)
    os.closerange(second + 1, os.sysconf("SC_OPEN_MAX"))
    if is_inside or (cgroup and cgroups.join(cgroup)):
        process = process_record.of(os.getpid(), cgroup=cgroup)
    else:
        parent = process_record.identity(os.getpid())
        procfs.become_subreaper()
        if executor := os.fork():
            os.close(specification)
            watch_over(executor, zygote)
        os.setsid()
        process = process_record.of(os.getpid(), subreaper=parent)
    zygote.send(_encode(process))
    return process


def watch_over(executor: int, zygote: socket.socket) -> NoReturn:
    """Be the subreaper: reap until no descendant is left, then end with the exit code or the signal of the executor.

    Every descendant whose parent ends becomes a child of this process. It survives the runner and the zygote.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    # This returns when the zygote has opened the executor by its id. The id may be reused after the first wait.
    zygote.recv(1)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    how = 0
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        if pid == executor:
            how = os.waitstatus_to_exitcode(status)
    if how < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-how, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the runner may have been started with it blocked
        os.kill(os.getpid(), -how)
    os._exit(how if how >= 0 else 128 - how)


def main() -> None:
    """Be the zygote until the runner closes its end of the socket."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entry", required=True, help="module:function that runs one attempt")
    parser.add_argument("--engine-path", action="append", default=[], help="where engines are looked for before PATH")
    parser.add_argument("--socket", type=int, required=True, help="descriptor of the socket to the runner")
    arguments = parser.parse_args()
    runner = socket.socket(fileno=arguments.socket)
    os.set_inheritable(runner.fileno(), False)
    # An executor may be interrupted as soon as it is forked. Python would raise KeyboardInterrupt wherever it is at that moment.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    procfs.forbid_inspection()  # this holds for every executor that is forked from here, too
    name, _, function = arguments.entry.partition(":")
    module = importlib.import_module(name)
    if warm := getattr(module, "warm", None):
        warm(arguments.engine_path)  # so that not every child has to do it
    gc.collect()
    gc.disable()
    gc.freeze()  # so that the collector of a child does not touch, and thereby copy, shared pages
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        serve(runner, getattr(module, function))


if __name__ == "__main__":
    main()
