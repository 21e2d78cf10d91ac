"""`sync_ms`: how long the disk under all this takes to make a page durable; no commit can be faster."""

import os
import time

from tests.bench.figures import median, percentile
from tests.bench.stage import Env

TIMES = 200


def sync_ms(env: Env) -> dict[str, float]:
    milliseconds: list[float] = []
    descriptor = os.open(env.directory / "page", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        for _ in range(TIMES):
            os.write(descriptor, b"x" * 4096)
            began = time.perf_counter()
            os.fdatasync(descriptor)
            milliseconds.append(1000 * (time.perf_counter() - began))
    finally:
        os.close(descriptor)
    return {"sync_ms.p50": median(milliseconds), "sync_ms.p99": percentile(milliseconds, 0.99)}
