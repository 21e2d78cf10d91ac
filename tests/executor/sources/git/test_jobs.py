"""Whole attempts with the real OpenTofu run a commit of a real repository, and know which one it is."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.protocol.events import Result, SourceResolved, Stream
from terracrew.protocol.messages import CancelAttempt
from terracrew.protocol.spec import GitSource, JobType
from terracrew.testing.executor_processes import ExecutorProcesses, session
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import statuses
from tests.executor.sources.git.merges import MergeServer, change, without_pack
from tests.machine.git_https import GitHttps
from tests.machine.repositories import Repository

pytestmark = [pytest.mark.engine, pytest.mark.feature("J5.git")]
SHOWS_COMMIT = """
resource "terraform_data" "x" {
  provisioner "local-exec" { command = "echo at $TERRACREW_SOURCE_COMMIT, $TERRACREW_SOURCE_REVISION" }
}
"""


@pytest.mark.feature("J13.variables")
async def test_a_job_runs_a_subdirectory_of_a_repository_and_has_the_commit_in_its_environment(
    hub: FakeExecutorHub, executors: ExecutorProcesses, server: GitHttps, repository: Repository
) -> None:
    (repository.folder / "vpc").mkdir()
    (repository.folder / "vpc" / "main.tf").write_text(SHOWS_COMMIT)
    commit = repository.commit("a subdirectory")
    repository.git("tag", "v1.0.0")
    executors.environment |= server.environment
    spec = executors.spec(JobType.APPLY, GitSource(server.of("network"), tag="v1.0.0", subdirectory="vpc"))
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    (resolved,) = hub.facts_of(SourceResolved)
    assert (resolved.commit, resolved.revision) == (commit, "tag v1.0.0")
    assert f"at {commit}, tag v1.0.0".encode() in hub.log(step="apply")
    assert f"Source: git {server.of('network')}, tag v1.0.0, commit {commit[:12]}".encode() in hub.log(
        Stream.SYSTEM, step="fetch"
    )


async def test_a_job_runs_the_result_of_merging_a_pull_request(
    hub: FakeExecutorHub, executors: ExecutorProcesses, server: GitHttps, repository: Repository, tmp_path: Path
) -> None:
    repository.commit("the job", main=SHOWS_COMMIT)
    change(repository, added='output "added" { value = "by the pull request" }\n')
    repository.commit("base", base='output "base" { value = "by the base" }\n')
    source, pack = await MergeServer(tmp_path, server, repository).merge()
    assert source.merge
    executors.environment |= server.environment
    spec = executors.spec(JobType.APPLY, without_pack(source))
    executor = await executors.run(msgspec.structs.replace(spec, merge=source.merge, archive=pack))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    (resolved,) = hub.facts_of(SourceResolved)
    assert (resolved.digest, resolved.revision) == (f"git:{source.commit}", source.merge.words)
    assert b"by the pull request" in hub.log(step="apply")
    assert b"by the base" in hub.log(step="apply")
    assert f"Source: git {server.of('network')}, {source.merge.words}".encode() in hub.log(Stream.SYSTEM, step="fetch")


@pytest.mark.feature("J9.modes")
async def test_a_job_that_is_canceled_while_its_repository_hangs_ends_with_its_git(
    hub: FakeExecutorHub, executors: ExecutorProcesses, server: GitHttps, repository: Repository
) -> None:
    server.hangs_on = "git-upload-pack"
    executors.environment |= server.environment
    executor = await executors.run(executors.spec(JobType.PLAN, GitSource(server.of("network"))))
    await hub.until(lambda: statuses(hub)[:1] == ["fetch RUNNING"])
    await hub.tell(CancelAttempt("job_1", 1, "interrupt"))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result == Result("CANCELED", "canceled during fetch")
    assert session(executor.process.pid) == []


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"branch": "nope"}, "has no branch nope"),
        ({"subdirectory": "nope"}, "the source has no folder 'nope'"),
        ({"subdirectory": "out"}, "which leads out of it"),
        ({"url": "ext::sh -c id"}, "would use 'ext', which is not allowed"),
        ({"branch": "--upload-pack=id"}, "begins with `-`"),
    ],
)
async def test_a_source_that_cannot_be_used_fails_the_first_step_and_says_why(
    hub: FakeExecutorHub,
    executors: ExecutorProcesses,
    server: GitHttps,
    repository: Repository,
    source: dict[str, Any],
    words: str,
) -> None:
    if source.get("subdirectory") == "out":
        (repository.folder / "out").symlink_to("/etc")
        repository.commit("a link")
    executors.environment |= server.environment
    executor = await executors.run(
        executors.spec(JobType.PLAN, msgspec.convert({"kind": "git", "url": server.of("network")} | source, GitSource))
    )
    assert await executor.exit_code() == 0
    assert hub.result.status == "FAILED"
    assert words in hub.result.message
    assert statuses(hub)[:2] == ["fetch RUNNING", "fetch FAILED"]
