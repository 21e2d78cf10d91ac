"""`demo_s`: `make demo EXIT=1` from a fresh clone with the engine in the cache, and once more."""

import os
import subprocess
import sys
import time
from pathlib import Path

from terracrew.toolchains import cache
from tests.bench.filled_server import Env
from tests.e2e.system import free_port

_LONGEST_SECONDS = 300


def run(env: Env) -> dict[str, float]:
    clone, kept = env.folder("demo") / "clone", env.folder("cache")
    subprocess.run(["git", "clone", "--quiet", Path(__file__).parents[2], clone], check=True)
    (kept / "engines").symlink_to(cache.root() / "engines")
    found: dict[str, float] = {}
    for name in ("demo_s.first", "demo_s.second"):
        began = time.perf_counter()
        done = subprocess.run(
            ["make", "demo", "EXIT=1", f"PORT={free_port()}"],
            cwd=clone,
            check=False,
            timeout=_LONGEST_SECONDS,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "TERRACREW_CACHE": str(kept), "PATH": _path_without_our_environment()},
        )
        if done.returncode:
            raise RuntimeError(done.stdout.decode(errors="replace")[-3000:])
        found[name] = time.perf_counter() - began
        env.say(f"{name}: {found[name]:.1f}")
    return found


def _path_without_our_environment() -> str:
    """The clone must use what a new user's machine has, not the Python environment of this process."""
    ours = str(Path(sys.executable).parent)
    return os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if part != ours)
