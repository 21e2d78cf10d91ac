"""A whole attempt with the real OpenTofu runs a module of a registry."""

from pathlib import Path

import pytest

from terracrew.protocol.events import SourceResolved
from terracrew.protocol.spec import JobType, RegistrySource
from terracrew.source_rules import archive
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.machine.module_registry import ModuleRegistry
from tests.machine.repositories import MODULE

pytestmark = [pytest.mark.engine, pytest.mark.feature("J5.registry")]


async def test_a_job_runs_a_module_of_a_registry_with_the_token_of_the_module_and_knows_its_version(
    hub: FakeExecutorHub, executors: ExecutorProcesses, registry: ModuleRegistry, tmp_path: Path
) -> None:
    folder = tmp_path / "module" / "network" / "vpc"
    folder.mkdir(parents=True)
    (folder / "main.tf").write_text(MODULE)
    registry.files["/1.2.0.tar.gz"] = archive.pack(tmp_path / "module")
    registry.versions["acme/network/aws"] = {"1.2.0": "/1.2.0.tar.gz//network"}
    registry.token = "s3cret-of-the-module"
    executors.environment |= {"SSL_CERT_FILE": str(registry.ca)}
    source = RegistrySource(registry.address(), "~> 1.0", subdirectory="vpc")
    spec = executors.spec(JobType.APPLY, source, environment={"TF_TOKEN_localhost": registry.token})
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    (resolved,) = hub.facts_of(SourceResolved)
    assert (resolved.revision, resolved.commit) == ("version 1.2.0", "")
    assert registry.token.encode() not in hub.log()
