"""Starts real executors against a fake hub, each in a process and a session of its own."""

import asyncio
import io
import os
import signal
import sys
from pathlib import Path
from typing import Any, TextIO

import msgspec

from terracrew.attempt.record import AttemptRecord
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import ArchiveSource, Credentials, JobSpec, JobType, Source, StateSeed
from terracrew.protocol.start import ExecutorStart, IsolationSettings, LogStreamSettings
from terracrew.source_rules import archive
from terracrew.system import file_changes
from terracrew.system.file_changes import FileChanges
from terracrew.testing.fake_executor_hub import API, HUB, KEY, FakeExecutorHub

CREDENTIALS = Credentials(HUB, API, KEY)


def module(folder: Path, **files: str) -> bytes:
    """An archive of a module with these files; `main` is main.tf."""
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.tf").write_text(text)
    return archive.pack(folder)


def joined(text: bytes) -> bytes:
    """The text without line feeds: a log has one more where a step leaves a line open."""
    return text.replace(b"\n", b"")


class Gate:
    """Holds a provisioner, and with it the engine, at a known place until the test lets it go."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "gate"
        self._writer: TextIO | None = None
        os.mkfifo(self.path)

    def provisioner(self, before: str = "true", after: str = "true") -> str:
        command = f"{before}; echo at the gate; read line < {self.path}; {after}"
        return f'provisioner "local-exec" {{ command = "{command}" }}'

    async def reached(self) -> None:
        """Wait until somebody reads from it."""
        if self._writer is None:
            self._writer = await asyncio.wait_for(asyncio.to_thread(open, self.path, "w"), 120)

    async def open(self) -> None:
        await self.reached()
        assert self._writer
        with self._writer:
            self._writer.write("go\n")


class Executor:
    """One executor process."""

    def __init__(self, process: asyncio.subprocess.Process, directory: Path) -> None:
        self.process, self.directory = process, directory

    async def exit_code(self, within: float = 120) -> int:
        return await asyncio.wait_for(self.process.wait(), within)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Signals the executor alone; its engine is another process group."""
        self.process.send_signal(number)

    async def until_printed(self, text: bytes, within: float = 120) -> None:
        """Wait, woken by the kernel, until the engine has printed this."""
        with FileChanges(self.directory, file_changes.IN_MODIFY | file_changes.IN_CREATE) as watch:
            changed = asyncio.Event()
            asyncio.get_running_loop().add_reader(watch.fileno(), changed.set)
            try:
                async with asyncio.timeout(within):
                    while not ((self.directory / "output").exists() and text in self.printed):
                        await changed.wait()
                        watch.clear()
                        changed.clear()
            finally:
                asyncio.get_running_loop().remove_reader(watch.fileno())

    @property
    def printed(self) -> bytes:
        """What the engine itself wrote, unmasked."""
        return (self.directory / "output").read_bytes()

    @property
    def said(self) -> str:
        return (self.directory / "executor.log").read_text()


class ExecutorProcesses:
    """Starts executors for one attempt in a folder, as a dispatcher does, and ends what a failed test leaves running."""

    def __init__(self, hub: FakeExecutorHub, folder: Path) -> None:
        self.hub, self.folder = hub, folder
        self.cache = folder / "cache"
        self.workspaces = folder / "workspaces"
        self.directory = folder / "attempt"
        self.engine_directory = folder / "engine-files"
        self.environment: dict[str, str] = {}
        """What the runner's own environment has besides that of the test."""
        self.uid: int | None = None
        """The user and the group that executors run as, if it is another one than that of the test."""
        self.python = sys.executable
        self.python_path: str | None = None
        """Where a Python that is not that of the test finds its packages."""
        self._executors: list[Executor] = []

    def spec(self, job_type: JobType, source: bytes | Source, **changes: Any) -> JobSpec:
        data = source if isinstance(source, bytes) else None
        fields: dict[str, Any] = {
            "job_id": "job_1",
            "attempt": 1,
            "number": 7,
            "type": job_type,
            "organization_id": "org_1",
            "module_id": "mod_1",
            "module_path": "acme/web",
            "group_path": "acme",
            "engine": "tofu",
            "inputs": {},
            "environment": {},
            "backend": "terracrew",
            "state": StateSeed(0),
            "archive": data,
            "source": ArchiveSource("arc_1") if isinstance(source, bytes) else source,
        }
        return JobSpec(**fields | changes)

    def start_of(self, spec: JobSpec | None, **changes: Any) -> ExecutorStart:
        env = {name: value for name, value in os.environ.items() if not name.startswith(("TF_", "TERRACREW_"))}
        fields: dict[str, Any] = {
            "server_url": self.hub.url,
            "directory": str(self.directory),
            "cache_directory": str(self.cache),
            "workspaces": str(self.workspaces),
            "engine_directory": str(self.engine_directory),
            "environment": env | {"HOME": str(self.folder)} | self.environment,
            "granted": Granted(spec, CREDENTIALS) if spec else None,
            "log_stream": LogStreamSettings(period_seconds=0.2),
            "isolation": IsolationSettings(write_paths=[str(self.folder)]),
        }
        return ExecutorStart(**fields | changes)

    async def run(self, spec: JobSpec | None, **changes: Any) -> Executor:
        """What a dispatcher does: the attempt's directory and record, then the process."""
        start = self.start_of(spec, **changes)
        directory = Path(start.directory)
        Path(start.workspaces).mkdir(exist_ok=True)
        if spec:
            assert start.granted
            directory.mkdir(mode=0o700)
            hub = start.granted.credentials.hub
            record = AttemptRecord(spec.job_id, spec.attempt, start.server_url, hub, [API, "a-secret-of-the-runner"])
            (directory / "attempt.json").write_bytes(msgspec.json.encode(record))
        with open(directory / "executor.log", "ab") as log:
            if self.uid is not None:
                for path in (directory, *directory.iterdir(), Path(start.workspaces)):
                    os.chown(path, self.uid, self.uid)
            process = await asyncio.create_subprocess_exec(
                self.python,
                "-m",
                "terracrew.executor",
                stdin=asyncio.subprocess.PIPE,
                stdout=log,
                stderr=log,
                cwd=directory,
                start_new_session=True,
                env=None if self.python_path is None else {**os.environ, "PYTHONPATH": self.python_path},
                user=self.uid,
                group=self.uid,
                extra_groups=None if self.uid is None else [],
            )
        assert process.stdin
        process.stdin.write(msgspec.json.encode(start))
        await process.stdin.drain()
        process.stdin.close()
        self._executors.append(executor := Executor(process, directory))
        return executor

    async def salvage(self) -> Executor:
        return await self.run(None, is_salvage=True)

    async def close(self) -> None:
        """End what a failed test left running: every process of each session that was started here."""
        for executor in self._executors:
            for pid in session(executor.process.pid):
                os.kill(pid, signal.SIGKILL)
            await executor.process.wait()


def session(leader: int) -> list[int]:
    """The living processes of a session."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                found.append(int(entry))
    return found


async def gone(leader: int, within: float = 120) -> None:
    """Wait until no process of the session is left: what a runner does before it salvages."""
    async with asyncio.timeout(within):
        while pids := session(leader):
            try:
                descriptor = os.pidfd_open(pids[0])
            except ProcessLookupError:  # it ended just now
                continue
            ended = asyncio.Event()
            asyncio.get_running_loop().add_reader(descriptor, ended.set)
            try:
                await ended.wait()
            finally:
                asyncio.get_running_loop().remove_reader(descriptor)
                os.close(descriptor)


def unpacked(data: bytes, folder: Path) -> Path:
    folder.mkdir()
    archive.extract(io.BytesIO(data), folder)
    return folder
