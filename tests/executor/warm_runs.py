"""Jobs of one module, one after the other on one runner that keeps what `init` made."""

import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from terracrew.protocol.events import Result, StepStatus, Stream
from terracrew.protocol.spec import JobType, Step
from terracrew.protocol.start import IsolationSettings, WarmSettings
from terracrew.source_rules import archive
from terracrew.system import trees
from terracrew.testing.executor_processes import Executor, ExecutorProcesses
from terracrew.testing.fake_executor_hub import FakeExecutorHub

WARM = "The workspace is warm: init is kept from job #{}"
SMALL = {
    "main.tf": 'module "below" { source = "./below" }\noutput "said" { value = module.below.said }\n',
    "below/main.tf": 'resource "terraform_data" "it" { input = "good" }\noutput "said" { value = terraform_data.it.input }\n',
}


class Ran(msgspec.Struct):
    """What a job did."""

    result: Result
    log: str
    facts: list[StepStatus]
    folder: Path

    @property
    def kept_from(self) -> int | None:
        """The number of the job whose `init` it used."""
        assert self.result.status == "SUCCEEDED", (self.result, self.log)
        found = [each.kept_from for each in self.facts if each.step is Step.INIT]
        assert len(found) == 1 if found[0] is not None else True
        assert (WARM.format(found[0]) in self.log) == (found[0] is not None)
        return found[0]

    @property
    def statuses(self) -> list[str]:
        return [f"{each.step} {each.status}" for each in self.facts if each.step in (Step.INIT, Step.PLAN)]


class WarmRunner:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache, self.workspaces = folder / "runner" / "cache", folder / "runner" / "workspaces"
        self.warm = WarmSettings(str(folder / "runner" / "warm"), b"s" * 32, 64 << 20, 3600.0)
        self.environment: dict[str, str] = {"HOME": str(folder / "home")}
        self.workspaces.mkdir(parents=True)
        self.number = 0

    @property
    def entries(self) -> list[Path]:
        place = Path(self.warm.directory)
        return sorted(place.iterdir()) if place.is_dir() else []

    def source(self, files: dict[str, str]) -> bytes:
        """An archive with these files. The same files give the same archive."""
        place = self.folder / f"source-{self.number}-{len(list(self.folder.iterdir()))}"
        for name, text in files.items():
            path = place / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, newline="")
        return archive.pack(place)

    @asynccontextmanager
    async def started(
        self, source: bytes, job_type: JobType = JobType.PLAN, **changes: Any
    ) -> AsyncGenerator[tuple[Executor, FakeExecutorHub]]:
        """The next job of the module, with its own server, directories and rights. `start` changes how its executor is started."""
        self.number += 1
        hub = FakeExecutorHub()
        await hub.start()
        folder = self.folder / f"job-{self.number}"
        folder.mkdir()
        executors = ExecutorProcesses(hub, folder)
        executors.cache, executors.workspaces = self.cache, self.workspaces
        executors.environment = dict(self.environment)
        given: dict[str, Any] = {"warm": self.warm, "isolation": IsolationSettings(), **changes.pop("start", {})}
        scratch = Path(tempfile.mkdtemp())  # its path is short, because providers put sockets into it
        executors.environment["TMPDIR"] = str(scratch)
        isolation: IsolationSettings = given["isolation"]
        given["isolation"] = msgspec.structs.replace(isolation, write_paths=[*isolation.write_paths, str(scratch)])
        spec = executors.spec(job_type, source, number=self.number, job_id=f"job_{self.number}", **changes)
        try:
            yield await executors.run(spec, **given), hub
        finally:
            await executors.close()
            await hub.stop()
            trees.remove(scratch)

    async def job(self, source: bytes, job_type: JobType = JobType.PLAN, **changes: Any) -> Ran:
        """Run the next job of the module to its end."""
        async with self.started(source, job_type, **changes) as (executor, hub):
            assert await executor.exit_code() == 0, executor.said
            folder = self.folder / f"job-{self.number}"
            log = hub.log(Stream.SYSTEM) + hub.log()
            return Ran(hub.result, log.decode(errors="replace"), list(hub.facts_of(StepStatus)), folder)
