"""A process of the same user, which has no privileges, looks into the memory of ours."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.e2e import modules
from tests.e2e.system import System, eventually

pytestmark = pytest.mark.feature("X4.isolation")

_LOOK = """
import sys
for pid in sys.argv[1:]:
    for name in ("environ", "mem", "maps"):
        try:
            with open(f"/proc/{pid}/{name}", "rb") as file:
                file.read(0 if name == "mem" else 1)
            print(pid, name)
        except OSError:
            pass
"""


def seen(*pids: int) -> list[str]:
    """What another process of this user can read of these."""
    command = [sys.executable, "-c", _LOOK, *map(str, pids)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


@pytest.fixture
def without_privileges() -> Iterator[ThreadPoolExecutor]:
    """A thread whose processes, also where the tests run as root, have not the rights by which root may look anywhere."""

    def drop() -> None:
        for capability in (19, 21, 38):  # SYS_PTRACE, SYS_ADMIN and PERFMON
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)

    with ThreadPoolExecutor(1, initializer=drop) as thread:
        yield thread


def test_the_test_itself_sees_an_ordinary_process(without_privileges: ThreadPoolExecutor) -> None:
    def look() -> tuple[int, list[str]]:
        with subprocess.Popen(["sleep", "60"]) as ordinary:
            found = seen(ordinary.pid)
            ordinary.kill()
        return ordinary.pid, found

    pid, found = without_privileges.submit(look).result()
    assert found == [f"{pid} {name}" for name in ("environ", "mem", "maps")]


def test_server_runner_helper_and_executor_cannot_be_looked_into(
    system: System, without_privileges: ThreadPoolExecutor
) -> None:
    """A plan read the worker token from the runner's memory."""
    system.starts_real_commands = True
    server = without_privileges.submit(lambda: system.start_server(runner=False)).result()
    runner = without_privileges.submit(lambda: system.start_runner(system.register_runner())).result()
    system.module("slow", modules.gated_apply(str(system.directory / "witness"), str(system.directory / "gate")))
    job = system.run("slow", "APPLY")
    executor = system.executor(job)
    eventually(lambda: (system.directory / "witness").exists(), what="the provisioner")
    ours = [server.pid, runner.pid, executor, *_helpers(runner.pid)]
    assert len(ours) >= 4
    assert without_privileges.submit(lambda: seen(*ours)).result() == []
    (system.directory / "gate").touch()
    assert system.wait(job)["status"] == "SUCCEEDED"


def _helpers(runner: int) -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parent = int(file.read().rpartition(") ")[2].split()[1])
            except OSError:
                continue
            if parent == runner:
                yield int(name)
