"""Where things are in a container that runs one attempt. The runner, which cannot see them, names them in `ExecutorStart`.

Everything is on one volume, because it has to outlive the container. Where there is none that does, everything is lost with the
container, and its first process delivers what a dead executor left (`ephemeral`, `ends`). Workspaces have the same path in every
container, since an engine must apply a saved plan where it was made.
"""

from pathlib import Path, PurePosixPath

ROOT = Path("/terracrew")
START = ROOT / "start.json"
"""What the executor is started with. The runner uploads it, and the first process removes it."""
COMPLETE = ROOT / "start.complete"
"""Tells the first process that everything was uploaded, when its time is this one."""
COMPLETE_MTIME_SECONDS = 0
ATTEMPTS = ROOT / "attempts"
CACHE = ROOT / "cache"
SHARED_CACHE = Path("/terracrew-cache")
"""A cache that containers keep between jobs, if the operator mounts one here. It is used instead of the other one."""
ENGINE_FILES = ROOT / "engine-files"
HOME = ROOT / "home"
TEMP = ROOT / "tmp"
WORKSPACES = ROOT / "workspaces"


def attempt(name: str) -> PurePosixPath:
    """Return the directory of the attempt with this name."""
    return PurePosixPath(ATTEMPTS / name)
