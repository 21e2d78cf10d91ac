"""A provider of the runner's shared cache that is damaged, with real engines and a real provider."""

import asyncio
import os
from pathlib import Path

import pytest

from terracrew.attempt import downloads
from terracrew.executor.engines.contract import DownloadContext
from terracrew.executor.engines.hcl import plugins, provider_download
from terracrew.protocol.spec import JobType
from terracrew.runner.disk import DownloadCache
from tests.executor.warm_providers import TIME, fill_cache, locked
from tests.executor.warm_runs import WarmRunner
from tests.machine import engines, providers
from tests.thoroughness import thorough

pytestmark = [pytest.mark.engine, pytest.mark.feature("J14.persist")]
REPAIRED = "is damaged in the cache of this runner: init runs now, and plan is tried once more"


@pytest.fixture(params=["tofu", pytest.param("terraform", marks=pytest.mark.other_engine)])
def engine(request: pytest.FixtureRequest) -> str:
    return engines.tested_version(str(request.param)).name


@pytest.fixture
def runner(tmp_path: Path, tofu: str) -> WarmRunner:
    made = WarmRunner(tmp_path)
    made.environment["TF_CLI_CONFIG_FILE"] = str(providers.configuration(tmp_path))
    return made


def damage(package: Path, how: str) -> None:
    """Damage a provider as a fault of the disk can."""
    program = next(package.glob("terraform-provider-*"))
    content = program.read_bytes()
    half = len(content) // 2
    program.chmod(0o755)
    program.write_bytes(content[:half] if how == "cut" else content[:half] + bytes(half))


@pytest.mark.parametrize("how", ["cut", pytest.param("zeros", marks=thorough)])
async def test_a_job_replaces_a_damaged_provider_and_succeeds(runner: WarmRunner, engine: str, how: str) -> None:
    """Symptom: every plan of every module without a lock file failed with «Unrecognized remote plugin message», for ever."""
    damage(package := await fill_cache(runner, engine), how)
    ran = await runner.job(runner.source(TIME), JobType.APPLY, engine=engine)
    assert ran.result.status == "SUCCEEDED", ran.log
    assert f"hashicorp/time/0.13.1 {REPAIRED}" in ran.log
    assert ran.statuses[-4:] == ["init RUNNING", "init SUCCEEDED", "plan RUNNING", "plan SUCCEEDED"]
    await replace(runner, engine, ran.folder)
    assert plugins.checksum(package) == package.with_name(f"{package.name}.h1").read_text()
    assert (await runner.job(runner.source(TIME), JobType.APPLY, engine=engine)).statuses.count("init RUNNING") == 1


async def test_a_damaged_provider_of_a_warm_workspace_is_replaced(runner: WarmRunner, engine: str) -> None:
    source, package = runner.source(locked(runner, engine, TIME)), await fill_cache(runner, engine)
    assert (await runner.job(source, engine=engine)).kept_from is None
    damage(package, "cut")
    ran = await runner.job(source, engine=engine)
    assert ran.result.status == "SUCCEEDED", ran.log
    assert REPAIRED in ran.log
    await replace(runner, engine, ran.folder)
    assert (await runner.job(source, engine=engine)).kept_from is None
    assert (await runner.job(source, engine=engine)).kept_from == 3


async def test_the_runner_is_told_of_a_provider_that_the_lock_file_refuses(runner: WarmRunner, engine: str) -> None:
    """Symptom: with a lock file each job installed the provider anew, and the cache stayed damaged."""
    source, package = runner.source(locked(runner, engine, TIME)), await fill_cache(runner, engine)
    damage(package, "cut")
    ran = await runner.job(source, engine=engine)
    assert ran.result.status == "SUCCEEDED", ran.log
    await replace(runner, engine, ran.folder)


async def replace(runner: WarmRunner, engine: str, attempt: Path) -> None:
    """Do what the runner does after the job, with what the job left."""
    [directory] = [each.parent for each in attempt.rglob("downloads.json")]
    missing = downloads.read(directory)
    assert missing is not None
    context = DownloadContext(runner.cache, os.environ | runner.environment, [])
    assert [await provider_download.download(missing.engine, each, context) for each in missing.items] == [True]
    assert not await provider_download.download(missing.engine, missing.items[0], context), "it has it now"


async def test_a_runner_that_starts_finds_and_replaces_what_is_damaged(
    runner: WarmRunner, engine: str, caplog: pytest.LogCaptureFixture
) -> None:
    damage(package := await fill_cache(runner, engine), "zeros")
    replaced = asyncio.Event()
    loop = asyncio.get_running_loop()

    def note() -> None:
        loop.call_soon_threadsafe(replaced.set)

    cache = DownloadCache(runner.cache, os.environ | runner.environment, [], note)
    running = asyncio.create_task(cache.run())
    async with asyncio.timeout(60):
        await replaced.wait()
    running.cancel()
    assert plugins.checksum(package) == package.with_name(f"{package.name}.h1").read_text()
    assert "hashicorp/time/0.13.1 was damaged in the cache of downloads" in caplog.text
