"""The cluster that all workers of the tests share, and clusters of single tests."""

import contextlib
import fcntl
import os
import shutil
import socket
import sys
from collections.abc import Generator
from pathlib import Path

from tests.machine.platforms.kubernetes import programs
from tests.machine.platforms.kubernetes.cluster import Cluster
from tests.machine.platforms.kubernetes.places import MAX_CLUSTERS, Places
from tests.machine.platforms.shared_daemon import SharedDaemon

_PROGRAMS = ("containerd", "ctr", "runc", "busybox", "ip", "unshare")


class Kubernetes:
    def __init__(self) -> None:
        self._places = Places(0)
        self._daemon = _daemon(self._places)

    def find(self) -> str | None:
        """Return nothing: a cluster that somebody else runs is not one to change."""

    def missing(self) -> str | None:
        if os.geteuid() != 0:
            return "a cluster of our own needs root"
        absent = [name for name in _PROGRAMS if shutil.which(name) is None]
        if not Path("/usr/lib/cni/ptp").exists():
            absent.append("containernetworking-plugins")
        if absent:
            return f"{', '.join(absent)} not installed: scripts/platform-packages installs them"
        return None if programs.are_built() or shutil.which("go") else "go is not installed"

    def prepare(self) -> None:
        programs.build()

    def join(self) -> str:
        """Return the path of an administrator's kubeconfig."""
        self.prepare()
        self._daemon.join()
        return str(self._places.kubeconfig)

    def leave(self) -> None:
        self._daemon.leave()


@contextlib.contextmanager
def own_cluster(*, has_node: bool = True) -> Generator[Cluster]:
    """Start a cluster for one test, which may stop its parts. Call `platforms.need("kubernetes")` before."""
    with contextlib.ExitStack() as stack:
        places = _free_places(stack)
        daemon = _daemon(places, *(() if has_node else ("control-plane",)))
        daemon.join()
        try:
            yield Cluster(places)
        finally:
            daemon.leave()


def _free_places(stack: contextlib.ExitStack) -> Places:
    """Return the places of a cluster that nobody has. The kernel releases the lock of a run that is killed."""
    for number in range(1, MAX_CLUSTERS):
        places = Places(number)
        places.folder.mkdir(parents=True, exist_ok=True)
        lock = stack.enter_context((places.folder / "owner").open("ab"))
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return places
    raise RuntimeError(f"{MAX_CLUSTERS} clusters of tests run already")


def _daemon(places: Places, *options: str) -> SharedDaemon:
    folder = places.folder
    command = [sys.executable, "-m", f"{__package__}.keeper", str(folder), str(places.number), *options]
    return SharedDaemon(folder, command, lambda: _answers(places))


def _answers(places: Places) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(places.control))
        except OSError:
            return False
    return Cluster(places).ask("status") == "done"
