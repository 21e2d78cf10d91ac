"""Starts the fleet process: with few variables, no open files of the server, and no way to its data directory if the kernel can do that."""

import fnmatch
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from terracrew.executor.isolation import landlock, rules
from terracrew.executor.isolation.landlock import EVERYTHING, READ, READ_AND_EXECUTE, PathRule, Surroundings
from terracrew.logging import get_logger

PROGRAM = ("terracrew.fleet",)
"""The module that is run, and its first arguments."""
INHERITED = (
    "PATH",
    "HOME",
    "TZ",
    "LANG",
    "LC_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "AWS_*",
    "KUBERNETES_*",
    "SSL_CERT_*",
    "PYTHONPATH",
    "PYTHONHOME",
    "LD_LIBRARY_PATH",
)
"""The variables that the process gets, in capital or small letters. The others may contain secrets of the server."""
log = get_logger("terracrew.fleet")


def start(private: Sequence[Path], program: Sequence[str] = PROGRAM) -> "tuple[subprocess.Popen[bytes], socket.socket]":
    """Start the process, and return it with the server's end of its socket. Called in a thread, because it blocks."""
    here, there = socket.socketpair()
    try:
        with there:
            process = _isolated_start(private, [*program, "--fd", str(there.fileno())], there.fileno())
    except BaseException:
        here.close()
        raise
    here.setblocking(False)
    return process, here


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the process."""
    return {
        name: value
        for name, value in given.items()
        if any(fnmatch.fnmatchcase(name.upper(), pattern) for pattern in INHERITED)
    }


def _isolated_start(private: Sequence[Path], arguments: Sequence[str], descriptor: int) -> "subprocess.Popen[bytes]":
    def execute() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-P", "-m", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env=environment(os.environ),
            pass_fds=[descriptor],
            start_new_session=True,
        )

    if not landlock.abi():
        log.warning(
            "the fleet process is not isolated: this kernel has no Landlock, so it could read the server's data directory"
        )
        return execute()
    hidden = [os.path.realpath(path) for path in private]
    ruleset = rules.system_ruleset(hidden)
    try:
        for rule in _rules(hidden):
            ruleset.add(rule)
        return ruleset.run(execute)
    finally:
        ruleset.close()


def _rules(hidden: Sequence[str]) -> Iterator[PathRule]:
    """Yield what the process needs beside the system's paths: Python's own files, and how this machine signs in to clouds."""
    surroundings = Surroundings(hidden)
    for folder in filter(None, map(landlock.resolved, filter(None, (*sys.path, *_python_path())))):
        if folder != "/":
            yield from (PathRule(part, READ_AND_EXECUTE) for part in surroundings.parts(folder))
    yield from (PathRule(path, EVERYTHING) for path in rules.READ_WRITE_DEVICES)
    yield PathRule("/proc", READ)
    own = [os.path.expanduser("~/.aws"), *rules.SERVICE_ACCOUNT_TOKENS]
    own += [os.environ[name] for name in rules.VARIABLES_WITH_PATHS if os.environ.get(name, "").startswith("/")]
    for path in filter(None, map(landlock.resolved, own)):
        yield from (PathRule(part, READ) for part in surroundings.parts(path))


def _python_path() -> list[str]:
    return os.environ.get("PYTHONPATH", "").split(os.pathsep)
