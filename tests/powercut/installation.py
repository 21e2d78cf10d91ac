"""A server on SQLite, a runner and its executors on one disk, the work that they do, and what they have promised.

A promise is an answer that somebody relies on: a job that the API accepted, a state whose saving the engine was told of.
After a power cut at any moment, everything starts again on what the disk kept, and every promise must be found kept.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from terracrew.errors import NotFound, TerracrewError
from terracrew.source_rules import archive
from terracrew.system import procfs
from tests.e2e.system import ACTIVE, Process, System, eventually, free_port

ROOT = Path(__file__).parents[2]
LARGE_STATE_BYTES = 3 << 20
"""Too large for an event: the state goes into a file of its own, and by HTTP."""
HOLD = "hold"
"""While this file exists, the engine saves no state: the server must be away before the first one is."""
_SETTLE_SECONDS = 90.0


class Promise(NamedTuple):
    what: str
    """`runner`, `job` or `state`."""
    value: str
    module: str = ""


class Installation:
    """`folder` is not on the disk whose power is cut; `disk` is."""

    def __init__(self, folder: Path, disk: Path) -> None:
        self.folder, self.disk = folder, disk
        self.witnesses = folder / "witnesses"
        self.witnesses.mkdir()
        self._promises: list[Promise] = []
        self._guard = threading.Lock()
        self._credentials: dict[str, str] = {}
        self._make_engine()
        self.starts = 0
        self.started: list[int] = []
        """The ids of the processes that were started here."""
        self.port = free_port()

    # ---- promises

    def promised(self) -> int:
        """How many promises have been made by now, the engine's witnesses included."""
        with self._guard:
            lines = [line for file in sorted(self.witnesses.iterdir()) for line in file.read_text().splitlines()]
            known = {promise.value for promise in self._promises if promise.what == "state"}
            for fact in map(json.loads, (line for line in lines if line.endswith("}"))):
                if fact["what"] == "state" and fact["sha256"] not in known:
                    self._promises.append(Promise("state", fact["sha256"], fact["module"]))
            return len(self._promises)

    def promise(self, what: str, value: str, module: str = "") -> None:
        with self._guard:
            self._promises.append(Promise(what, value, module))

    # ---- before the cut

    def work(self, environment: dict[str, str], *, is_short: bool) -> None:
        """The life of a small site: first start, registration, modules, jobs, states small and large."""
        system = self.start(environment)
        server = system.server
        self._credentials = system.register_runner()
        self.promise("runner", "crew")
        system.start_runner(self._credentials)
        for name, size in (("small", 200), ("large", LARGE_STATE_BYTES)):
            self._module(system, name, size)
        self._apply_while_the_server_is_away(system, server)
        more = () if is_short else (("small", "APPLY"), ("large", "APPLY"), ("small", "PLAN"))
        jobs = [self._run(system, name, kind) for name, kind in more]
        for job in jobs:
            assert system.wait(job)["status"] == "SUCCEEDED", system.job(job)
        self.kill(system)

    def _apply_while_the_server_is_away(self, system: "Started", server: Process) -> None:
        """For a while the states of these jobs are on the runner's disk and nowhere else."""
        hold = self.folder / HOLD
        hold.touch()
        jobs = [self._run(system, name, "APPLY") for name in ("small", "large")]
        eventually(lambda: self._witnessed("start") == 2, what="both applies")
        server.kill(signal.SIGSTOP)
        hold.unlink()
        eventually(lambda: self._witnessed("end") == 2, what="the end of both applies")
        server.kill(signal.SIGCONT)
        for job in jobs:
            assert system.wait(job)["status"] == "SUCCEEDED", system.job(job)

    def _witnessed(self, what: str) -> int:
        return sum(file.read_text().count(f'"what": "{what}"') for file in self.witnesses.iterdir())

    def start(self, environment: dict[str, str]) -> "Started":
        self.starts += 1
        system = Started(self, environment)
        system.server = system.start_server(runner=False)
        return system

    def kill(self, system: "Started | None" = None) -> None:
        """End every process of the site at once, as a power cut does."""
        assert system is None or {process.pid for process in system.processes} <= set(self.started), "not all are known"
        found: dict[int, procfs.Process] = {}
        # A process that is stopped starts no other one, and its children stay its children.
        while more := [each for each in self._processes() if each.pid not in found]:
            for each in more:
                procfs.send(each, signal.SIGSTOP)
                found[each.pid] = each
        for each in found.values():
            procfs.send(each, signal.SIGKILL)
        self.started.clear()  # the numbers may soon be those of other processes
        if system is not None:
            system.reap()
        end = time.monotonic() + 20
        while any(_is_alive(each) for each in found.values()):
            assert time.monotonic() < end, "processes of the site are left"
            time.sleep(0.01)

    def _processes(self) -> list[procfs.Process]:
        """Return every living process of the site: what was started, and what is below it.

        The environment, which would show whose process one is, can be read by root only: our processes forbid inspection."""
        first = [
            procfs.Process(pid, seen)
            for pid in self.started
            if (seen := procfs.stat(pid)) is not None and seen.is_alive
        ]
        return first + [below for each in first for below in procfs.descendants(each.pid)]

    def _module(self, system: System, name: str, state_bytes: int) -> None:
        fields = {
            "name": name,
            "witness": str(self.witnesses),
            "hold": str(self.folder / HOLD),
            "seconds": 0.5,
            "lines": 6,
            "things": 4,
            "states": 2,
            "state_bytes": state_bytes,
        }
        source = self.folder / "source" / name
        source.mkdir(parents=True)
        (source / "chaos.json").write_text(json.dumps(fields))
        (source / "main.tf").touch()  # a source without a configuration is refused
        system.module(name, "")

    def _run(self, system: System, module: str, kind: str) -> str:
        job = system.run(module, kind)
        self.promise("job", job, module)
        return job

    def _make_engine(self) -> None:
        program = self.folder / "bin" / "tofu"
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\nunset LD_PRELOAD\nPYTHONPATH={ROOT} exec {sys.executable} -S {ROOT}/tests/powercut/engine.py "$@"\n'
        )
        program.chmod(0o755)

    # ---- after it

    def check(self, promises: int) -> list[str]:
        """Start everything on what the disk kept; every violation in words."""
        for file in self.witnesses.iterdir():  # engines that run from now on promise to a later reader
            file.unlink()
        try:
            return self._check(self._promises[:promises])
        except (TerracrewError, RuntimeError, AssertionError) as error:
            return [f"{type(error).__name__}: {error}"]
        finally:
            self.kill()

    def _check(self, made: list[Promise]) -> list[str]:
        system = self.start({})
        try:
            missing = [promise for promise in made if promise.what == "job" and not _exists(system, promise.value)]
            if missing:
                return [f"the accepted job {promise.value} is unknown" for promise in missing]
            if any(promise.what == "runner" for promise in made):
                system.start_runner(self._credentials)
                self._settle(system)
            return self._violations(system, made)
        finally:
            self.kill(system)

    def _settle(self, system: System) -> None:
        def is_settled() -> bool:
            left = [path for path in system.runner_directory().glob("attempts/*") if path.is_dir()]
            return not left and not self._unsettled(system)

        with contextlib.suppress(AssertionError):
            eventually(is_settled, within=_SETTLE_SECONDS)

    def _unsettled(self, system: System) -> list[dict[str, Any]]:
        """Return the jobs that have not ended. One that was stored, but not answered before the cut, is no promise and runs, too."""
        jobs = list(system.api.list("/jobs"))
        waiting = {job["module_path"] for job in jobs if job["status"] == "AWAITING_APPROVAL"}
        return [
            job
            for job in jobs
            if job["status"] in ACTIVE
            and job["status"] != "AWAITING_APPROVAL"
            and not (job["status"] == "QUEUED" and job["module_path"] in waiting)
        ]

    def _violations(self, system: "Started", made: list[Promise]) -> list[str]:
        found = [
            f"job {job['id']} is stuck: {job['status']}, attempt {job['attempt']}, {job.get('reason')}"
            for job in self._unsettled(system)
        ]
        states = [promise for promise in made if promise.what == "state"]
        for module in {promise.module for promise in states}:
            kept = {state["sha256"] for state in system.api.list(f"/modules/{module}/states")}
            lost = [promise.value[:12] for promise in states if promise.module == module and promise.value not in kept]
            found += [f"a state of {module} that was acknowledged is lost: {value}" for value in lost]
        directory = system.runner_directory()
        left = [path for name in ("attempts", "undelivered") for path in directory.glob(f"{name}/*")]
        found += [f"{path.relative_to(directory)} is left: {sorted(os.listdir(path))}" for path in left]
        return found + [f"{log.name} has a traceback: {log.read_text()}" for log in system.logs if _has_traceback(log)]


class Started(System):
    """The processes of one start; what they print is kept outside of the disk."""

    has_migrated_database = False  # a copy would not be synced, so a power cut would lose it
    server: Process

    def __init__(self, site: Installation, environment: dict[str, str]) -> None:
        super().__init__(site.disk)
        self.port, self.url = site.port, f"http://127.0.0.1:{site.port}"
        self._site, self._kept = site, site.folder / f"start-{site.starts}"
        self._kept.mkdir()
        self.env |= environment | {
            "HOME": str(site.folder),
            "TERRACREW_CACHE": str(site.folder / "cache"),
            "TERRACREW_ENGINE__ADDITIONAL_BINARY_PATHS": str(site.folder / "bin"),
            "TERRACREW_EXECUTOR__ISOLATION": "none",  # the engine here is a program of these tests, in their own folder
        }
        self.logs: list[Path] = []

    def start(self, name: str, arguments: list[str], env: dict[str, str], module: str = "terracrew.cli") -> Process:
        process = Process(name, arguments, self._kept / f"{name}.log", env, module)
        self.processes.append(process)
        self._site.started.append(process.pid)
        self.logs.append(process.log)
        return process

    def module(self, path: str, main: str, **fields: Any) -> None:
        packed = archive.pack(self._site.folder / "source" / path)
        uploaded = self.api.upload("/archives", packed, "application/gzip")
        source = {"kind": "archive", "archive_id": uploaded["id"]}
        self.api.post("/modules", {"path": path, "engine": "tofu", "source": source})

    def reap(self) -> None:
        for process in self.processes:
            process.stop()


def _exists(system: System, job_id: str) -> bool:
    try:
        return bool(system.job(job_id))
    except NotFound:
        return False


def _has_traceback(log: Path) -> bool:
    return "Traceback" in log.read_text()


def _is_alive(process: procfs.Process) -> bool:
    seen = procfs.stat(process.pid)
    return seen is not None and seen.is_alive and seen.start_time == process.stat.start_time
