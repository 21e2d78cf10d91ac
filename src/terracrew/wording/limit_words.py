"""Limits of jobs in words, the same on pages and in a terminal."""

from collections.abc import Mapping
from typing import Any

from terracrew.wording.durations import written

FAILURE_KINDS = {
    "time_limit": "Time limit reached",
    "out_of_memory": "Out of memory",
    "process_limit": "Too many processes",
    "disk_full": "Disk full",
    "state_locked": "State locked by another run",
}
"""What a failed job lacked, or who was in its way."""


def described(limits: Mapping[str, Any]) -> list[str]:
    """Return each limit as a phrase: `job 1h`, `plan 10m`, `2,048 MB of memory`. `limits` is as the API shows it."""
    found: list[str] = []
    if seconds := limits.get("job_seconds"):
        found.append(f"job {written(seconds)}")
    steps: Mapping[str, int] = limits.get("step_seconds") or {}
    found += [f"{step} {written(seconds)}" for step, seconds in steps.items()]
    if memory := limits.get("memory_mb"):
        found.append(f"{memory:,} MB of memory")
    if processes := limits.get("processes"):
        found.append(f"{processes:,} processes and threads")
    if retries := limits.get("plan_retries"):
        found.append(f"{retries} plan {'retry' if retries == 1 else 'retries'}")
    return found
