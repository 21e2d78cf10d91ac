"""Simulates one machine for each runner: all of its processes end, or stop, at the same moment."""

import contextlib
import signal
import time
from collections.abc import Iterable, Sequence

import psutil

from tests.e2e.system import Process, System, eventually


class Host:
    """The processes of one machine: a runner, its zygote, executors and engines."""

    def __init__(self, system: System, name: str, capacity: int) -> None:
        self.name = name
        self._runner = system.start_runner(
            system.register_runner(name) | {"TERRACREW_RUNNER__CAPACITY": str(capacity)}, instance=name
        )

    def kill(self) -> float:
        """Kill all processes and return when. They are stopped first, so that none sees another one die."""
        found = self.stop()
        at = time.time()
        _signal(found, signal.SIGKILL)
        self._runner.kill()
        psutil.wait_procs(found, timeout=10)
        return at

    def stop(self) -> "list[psutil.Process]":
        """Stop all processes, like a machine that hangs: connections stay open, and no process answers."""
        runner = psutil.Process(self._runner.pid)
        found = [runner, *runner.children(recursive=True)]
        _signal(found, signal.SIGSTOP)
        return found

    @property
    def runner(self) -> Process:
        return self._runner


def _signal(processes: "Iterable[psutil.Process]", number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def hosts(system: System, names: Sequence[str], capacity: int = 1) -> list[Host]:
    """Yield machines whose runners are online."""
    found = [Host(system, name, capacity) for name in names]
    eventually(lambda: set(names) <= online(system), what="the crew")
    return found


def online(system: System) -> set[str]:
    return {runner["name"] for runner in system.api.list("/runners") if runner["status"] == "ONLINE"}
