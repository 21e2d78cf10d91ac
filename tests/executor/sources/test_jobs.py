"""Whole attempts with the real OpenTofu fetch their source, or say why they cannot use it."""

import hashlib

import pytest

from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import ArchiveSource, JobType, LocalSource
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import statuses

pytestmark = pytest.mark.engine

MODULE = 'output "x" { value = 1 }'


@pytest.mark.feature("J5.local")
async def test_a_local_source_is_copied_and_runs_only_from_under_an_allowed_root(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    source = executors.folder / "source"
    module(source, main='output "here" { value = path.cwd }')
    (source / "terraform.tfstate").write_text("{}")
    spec = executors.spec(JobType.PLAN, LocalSource(str(source)))
    executor = await executors.run(spec, source_roots=[str(executors.folder)])
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert hub.facts_of(SourceResolved)[0].digest.startswith("tree:")
    assert not (executor.directory / "workspace" / "terraform.tfstate").exists()
    assert not (source / ".terraform").exists()
    assert str(executors.workspaces / "job_1.1").encode() in hub.log(step="plan")


@pytest.mark.feature("J5.local")
@pytest.mark.parametrize("path", ["/etc", "{root}/../outside", "{root}/link"])
async def test_a_local_source_outside_the_roots_is_refused(
    hub: FakeExecutorHub, executors: ExecutorProcesses, path: str
) -> None:
    root = executors.folder / "root"
    root.mkdir()
    (executors.folder / "outside").mkdir()
    (root / "link").symlink_to(executors.folder / "outside")
    spec = executors.spec(JobType.PLAN, LocalSource(path.format(root=root)))
    executor = await executors.run(spec, source_roots=[str(root)])
    assert await executor.exit_code() == 0
    assert "is not under a folder that this runner allows" in hub.result.message
    assert statuses(hub)[:2] == ["fetch RUNNING", "fetch FAILED"]


@pytest.mark.feature("J5.once")
async def test_a_source_that_changed_between_attempts_fails_the_job(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    source = module(executors.folder / "source", main=MODULE)
    executor = await executors.run(executors.spec(JobType.PLAN, source, source_digest="sha256:" + "0" * 64))
    assert await executor.exit_code() == 0
    assert "the source changed since attempt 1" in hub.result.message


@pytest.mark.feature("J5.once")
async def test_a_large_archive_is_fetched_once_and_kept_by_its_hash(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    data = module(executors.folder / "source", main=MODULE)
    hub.archive = data
    sha256 = hashlib.sha256(data).hexdigest()
    spec = executors.spec(JobType.PLAN, ArchiveSource("arc_1", sha256=sha256))
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert (executors.cache / "archives" / sha256).read_bytes() == data
