"""`sync_ms`: how long the disk takes to make a page durable, with pauses in between, as on a quiet server. No commit is faster."""

import os
import time
from pathlib import Path

from tests.bench.figures import median, percentile
from tests.bench.filled_server import Env

TIMES, GAP_SECONDS = 200, 0.005


def run(env: Env) -> dict[str, float]:
    milliseconds = [1000 * each for each in sync_seconds(env.directory / "page")]
    found = {"sync_ms.p50": median(milliseconds), "sync_ms.p99": percentile(milliseconds, 0.99)}
    env.say(f"sync_ms: p50 {found['sync_ms.p50']:.2f}, p99 {found['sync_ms.p99']:.2f}; two commits make a dispatch")
    return found


def sync_seconds(path: Path) -> list[float]:
    """Return how long each of `TIMES` appended pages took to become durable."""
    found: list[float] = []
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for _ in range(TIMES):
            time.sleep(GAP_SECONDS)
            os.write(descriptor, b"x" * 4096)
            began = time.perf_counter()
            os.fdatasync(descriptor)
            found.append(time.perf_counter() - began)
    finally:
        os.close(descriptor)
    return found
