"""Watches the limits of an attempt, and has its engine interrupted when one is reached, so that it can save its state."""

import asyncio
import time
from collections.abc import Callable

from terracrew.executor.control import Control, ReachedLimit
from terracrew.executor.limits import usage
from terracrew.executor.limits.usage import AttemptUsage, KernelLimits
from terracrew.protocol.spec import JobLimits, Step
from terracrew.wording.durations import duration

MEASURE_SECONDS = 0.2
"""How often memory and processes are measured, if the job has a limit for them."""
_LOOK_SECONDS = 1.0
SOFT_MEMORY_RATIO = 0.9
"""The engine is interrupted at this share of the memory limit, and killed at the limit itself."""
DEFAULT_PROCESSES = 5_000
"""The limit of processes and threads where none is set, so that a program that forks forever does not take the whole machine."""
_KILL_RATIO = 2
"""An engine that goes on to start processes after its interrupt is killed when there are this many times the limit."""
_MEGABYTE_BYTES = 1 << 20


class LimitWatch:
    """The limits of one attempt, and what it has used of them. `look` compares both."""

    def __init__(
        self,
        limits: JobLimits,
        control: Control,
        say: Callable[[str], None],
        kernel: KernelLimits | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        measure: Callable[[], AttemptUsage] = usage.measure,
    ) -> None:
        self._limits, self._control, self._say = limits, control, say
        self._kernel = kernel or KernelLimits()
        self._clock, self._measure = clock, measure
        self._job_started_at = self._step_started_at = clock()
        self._step: Step | None = None

    def enter(self, step: Step) -> None:
        self._step, self._step_started_at = step, self._clock()

    def leave(self) -> None:
        self._step = None

    @property
    def step_seconds(self) -> float:
        """How long the current step has run."""
        return self._clock() - self._step_started_at

    def explain(self) -> str:
        """Return what people should know about limits that the kernel does not enforce here; empty if there are none."""
        unenforced: list[str] = []
        if self._limits.memory_mb is not None and not self._kernel.has_memory:
            unenforced.append("memory")
        if self._limits.processes is not None and not self._kernel.has_processes:
            unenforced.append("processes")
        if not unenforced:
            return ""
        return (
            f"The limit of {' and of '.join(unenforced)} is checked every {MEASURE_SECONDS:g} s and not enforced by the kernel, "
            "because this runner has no cgroup of version 2 with the controllers for it"
        )

    async def run(self) -> None:
        if said := self.explain():
            self._say(said)
        while True:
            await asyncio.sleep(self._pause_seconds())
            self.look()

    def look(self) -> None:
        """Compare once, and have the engine stopped if a limit is reached."""
        reached = self._too_long()
        if self._step is not None and (self._control.limit is None or self._control.limit.mode != "kill"):
            reached = self._too_much(self._measure()) or reached
        was = self._control.limit
        if reached is not None:
            self._control.reach(reached)
        if (now := self._control.limit) is not None and now is not was:
            if was is None:
                self._kernel.stop_slowing()
            done = "interrupted, so that it can save its state" if now.mode == "interrupt" else "killed"
            self._say(f"{now.text[0].upper()}{now.text[1:]}. It is {done}")

    def _pause_seconds(self) -> float:
        is_measured = self._limits.memory_mb is not None or self._limits.processes is not None
        pauses = [MEASURE_SECONDS if is_measured else _LOOK_SECONDS]
        if self._control.limit is None:
            pauses += [max(0.01, end - self._clock()) for end in self._deadlines()]
        return min(pauses)

    def _deadlines(self) -> list[float]:
        found: list[float] = []
        if self._limits.job_seconds is not None:
            found.append(self._job_started_at + self._limits.job_seconds)
        if self._step is not None and (seconds := self._limits.step_seconds.get(self._step)) is not None:
            found.append(self._step_started_at + seconds)
        return found

    def _too_long(self) -> ReachedLimit | None:
        now, step = self._clock(), self._step
        seconds = None if step is None else self._limits.step_seconds.get(step)
        if seconds is not None and now - self._step_started_at >= seconds:
            return ReachedLimit("time_limit", f"{step} has reached its time limit of {duration(seconds)}")
        seconds = self._limits.job_seconds
        if seconds is not None and now - self._job_started_at >= seconds:
            where = f" in {step}" if step is not None else ""
            return ReachedLimit("time_limit", f"the job has reached its time limit of {duration(seconds)}{where}")
        return None

    def _too_much(self, used: AttemptUsage) -> ReachedLimit | None:
        if (memory := self._limits.memory_mb) is not None and used.memory_bytes >= (
            memory * _MEGABYTE_BYTES * SOFT_MEMORY_RATIO
        ):
            megabytes = used.memory_bytes // _MEGABYTE_BYTES
            text = f"{self._step} uses {megabytes:,} MB of memory, and the limit is {memory:,} MB"
            return ReachedLimit("out_of_memory", text, "kill" if megabytes >= memory else "interrupt")
        processes = self._limits.processes or DEFAULT_PROCESSES
        if used.processes > processes:
            text = f"{self._step} has {used.processes:,} processes and threads, and the limit is {processes:,}"
            is_running_away = used.processes >= _KILL_RATIO * processes
            return ReachedLimit("process_limit", text, "kill" if is_running_away else "interrupt")
        return None
