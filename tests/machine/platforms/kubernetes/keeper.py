"""The process that keeps one cluster: it starts everything in namespaces of its own, and removes what is left at the end.

    python -m tests.machine.platforms.kubernetes.keeper FOLDER NUMBER [control-plane]

The processes of the cluster, and all containers, are in one PID namespace and one mount namespace. They end with it, whatever
happens to this process.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.machine.platforms.kubernetes import commands
from tests.machine.platforms.kubernetes.places import Places

_PR_SET_PDEATHSIG = 1
_REMOVAL_SECONDS = 10.0


def main(number: int, *options: str) -> int:
    places = Places(number)
    _remove(places)
    places.data.mkdir(parents=True, mode=0o700)
    shutil.rmtree(places.logs, ignore_errors=True)
    places.logs.mkdir()
    _make_cgroups(places)
    subprocess.run(["ip", "address", "add", f"{places.address}/32", "dev", "lo"], check=True)
    inside = [sys.executable, "-m", f"{__package__}.inside", str(number), *options]
    command = [
        "unshare",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount",
        "--propagation",
        "private",
        "--mount-proc",
        *inside,
    ]
    libc = ctypes.CDLL(None)
    env = commands.environment()
    process = subprocess.Popen(command, env=env, preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL))
    # `unshare` ignores this signal while its child runs.
    signal.signal(signal.SIGTERM, lambda number, frame: process.kill())
    code = process.wait()
    _remove(places)
    return 0 if code == -signal.SIGKILL else code or 1


def _remove(places: Places) -> None:
    """Remove what a cluster of this number has left: its processes are gone, or go now."""
    subprocess.run(["ip", "address", "del", f"{places.address}/32", "dev", "lo"], capture_output=True, check=False)
    deadline = time.monotonic() + _REMOVAL_SECONDS
    while _remove_cgroups(places) and time.monotonic() < deadline:
        time.sleep(0.05)  # the kernel ends the processes of the namespace
    shutil.rmtree(places.data, ignore_errors=True)


def _remove_cgroups(places: Places) -> bool:
    """Return whether something is left, because processes have not ended yet."""
    for root in places.cgroups():
        for folder, _, _ in os.walk(root, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    return any(root.exists() for root in places.cgroups())


def _make_cgroups(places: Places) -> None:
    for folder in places.cgroups():
        folder.mkdir(exist_ok=True)
        # In a new cgroup of this hierarchy nothing may run until it has processors and memory.
        for name in ("cpuset.mems", "cpuset.cpus"):
            if (folder / name).exists() and (folder.parent / name).exists():
                (folder / name).write_text((folder.parent / name).read_text())
        controllers = folder / "cgroup.controllers"
        if controllers.exists() and (names := controllers.read_text().split()):
            _enable(folder, names)


def _enable(folder: Path, controllers: list[str]) -> None:
    (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in controllers))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[2]), *sys.argv[3:]))
