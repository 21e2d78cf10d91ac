"""The machines of the runners: every process of a machine is found by a mark in its environment, as the kernel shows it."""

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import msgspec

MARK = "CHAOS_HOST"
_ATTEMPT = re.compile(r"/(attempts|workspaces)/(job_\w+\.\d+)/")
Role = Literal["runner", "zygote", "executor", "engine"]


class Member(msgspec.Struct, frozen=True):
    host: str
    pid: int
    role: Role
    attempt: str
    """`job.number` for an executor, an engine and what an engine started; else empty."""


def members(run: str) -> list[Member]:
    """Every living process of this run's hosts."""
    prefix = f"{MARK}={run}/".encode()
    found: list[Member] = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, IndexError, StopIteration):
            folder = Path("/proc", name)
            marks = (one for one in (folder / "environ").read_bytes().split(b"\0") if one.startswith(prefix))
            host = next(marks).removeprefix(prefix).decode()
            found.append(_member(host, int(name), folder))
    return found


def _member(host: str, pid: int, folder: Path) -> Member:
    command = (folder / "cmdline").read_bytes()
    attempt = _attempt(folder, command)
    if b"terracrew.runner.dispatch.local.zygote" in command or b"zygote.py" in command:
        return Member(host, pid, "executor" if attempt else "zygote", attempt)
    return Member(host, pid, "engine" if attempt else "runner", attempt)


def _attempt(folder: Path, command: bytes) -> str:
    """Find the attempt of a process by the plan that it applies, by its executor, which leads its session, or by its directory."""
    if named := _ATTEMPT.search(command.decode(errors="replace")):
        return named[2]
    session = (folder / "stat").read_bytes().rpartition(b")")[2].split()[3].decode()
    for process in (Path("/proc", session), folder):
        with contextlib.suppress(OSError):
            if named := _ATTEMPT.search(os.readlink(process / "cwd") + "/"):
                return named[2]
    return ""


def strike(targets: list[Member], number: signal.Signals) -> None:
    for one in targets:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one.pid, number)


def attempts(targets: list[Member]) -> tuple[str, ...]:
    return tuple(sorted({one.attempt for one in targets if one.attempt}))


def on(found: list[Member], host: str, *roles: Role) -> Iterator[Member]:
    return (one for one in found if one.host == host and (not roles or one.role in roles))
