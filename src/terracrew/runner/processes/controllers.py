"""Has the kernel enforce the limits of memory and processes of an attempt, where its cgroup has the controllers for them."""

import contextlib
import logging
from pathlib import Path

from terracrew.protocol.spec import JobLimits

log = logging.getLogger(__name__)

CONTROLLERS = ("memory", "pids")
SLOWING_RATIO = 0.9
"""Above this share of its memory, the kernel slows an engine down, so that there is time to interrupt it before it is killed."""
EXECUTOR_TASKS = 50
"""How many processes and threads the executor itself may have. They are in the same cgroup as those of the engine."""
EXECUTOR_MEGABYTES = 128
_MEGABYTE_BYTES = 1 << 20


def enable(folder: Path) -> frozenset[str]:
    """Enable the controllers for the cgroups in this one. Returns those that are enabled.

    A cgroup whose own processes are in it cannot enable any. Then limits are only watched by the executor.
    """
    for name in CONTROLLERS:
        for cgroup in (folder.parent, folder):
            try:
                _write(cgroup / "cgroup.subtree_control", f"+{name}")
            except OSError as error:
                log.debug("the controller %s cannot be enabled in %s: %s", name, cgroup, error.strerror)
    try:
        return frozenset(CONTROLLERS) & set((folder / "cgroup.subtree_control").read_text().split())
    except OSError:
        return frozenset()


def limit(cgroup: Path, limits: JobLimits) -> None:
    """Set the limits of an attempt. A file of a controller that is not enabled does not exist."""
    values: dict[str, int] = {}
    if limits.memory_mb is not None:
        own = EXECUTOR_MEGABYTES * _MEGABYTE_BYTES
        values["memory.high"] = int(limits.memory_mb * _MEGABYTE_BYTES * SLOWING_RATIO) + own
        values["memory.max"] = limits.memory_mb * _MEGABYTE_BYTES + own
        values["memory.swap.max"] = 0
    if limits.processes is not None:
        values["pids.max"] = limits.processes + EXECUTOR_TASKS
    for name, value in values.items():
        with contextlib.suppress(FileNotFoundError, PermissionError):  # the controller is not enabled
            _write(cgroup / name, str(value))


def _write(file: Path, text: str) -> None:
    """Write to a file of the kernel. One that does not exist is not created."""
    with open(file, "r+") as opened:
        opened.write(text)
