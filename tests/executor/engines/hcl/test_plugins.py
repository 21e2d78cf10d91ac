"""Provider plug-ins, with the real engine: the cache that jobs share is read-only to them, filled by the runner, and used."""

import asyncio
import os
import zipfile
from pathlib import Path

import pytest

from terracrew.attempt import downloads
from terracrew.attempt.downloads import MissingDownloads
from terracrew.errors import Invalid
from terracrew.executor.engines.contract import DownloadContext
from terracrew.executor.engines.hcl import plugins, provider_download
from terracrew.executor.engines.hcl.lockfile import Provider
from terracrew.protocol.events import StepStatus
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import IsolationSettings
from terracrew.runner.disk import DownloadCache
from terracrew.testing.executor_processes import Executor, ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub

pytestmark = [pytest.mark.engine, pytest.mark.feature("J14.persist")]

FAKE = Provider("registry.opentofu.org/terracrew/fake", "1.2.3")
MAIN = 'terraform {\n  required_providers {\n    fake = { source = "terracrew/fake" }\n  }\n}\n'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home whose configuration of the engine has a mirror with one package, which `init` unpacks but does not run."""
    place = tmp_path / "mirror" / FAKE.address
    place.mkdir(parents=True)
    with zipfile.ZipFile(place / f"terraform-provider-fake_1.2.3_{plugins.platform()}.zip", "w") as packed:
        packed.writestr("LICENSE", "free")
        about = zipfile.ZipInfo("terraform-provider-fake_v1.2.3")
        about.external_attr = 0o755 << 16
        packed.writestr(about, "#!/bin/sh\nexit 1\n")
    home = tmp_path / "home"
    home.mkdir()
    mirror = f'provider_installation {{\n  filesystem_mirror {{ path = "{tmp_path / "mirror"}" }}\n}}\n'
    (home / ".tofurc").write_text(mirror)
    return home


async def run(
    executors: ExecutorProcesses, home: Path, tmp_path: Path, source: bytes, job: str = "job_1", **more: str
) -> Executor:
    """A PLAN of the module: `init` succeeds, and what comes after it fails, since the provider is none."""
    hub = FakeExecutorHub()
    await hub.start()
    scratch = tmp_path / f"tmp-{job}"
    scratch.mkdir()
    executors.hub, executors.directory, executors.engine_directory = (
        hub,
        tmp_path / f"attempt-{job}",
        engine_directory(tmp_path, job),
    )
    isolation = IsolationSettings(write_paths=[str(scratch)], private_paths=[str(executors.directory)])
    spec = executors.spec(JobType.PLAN, source, job_id=job)
    environment = executors.start_of(spec).environment | {"HOME": str(home), "TMPDIR": str(scratch)} | more
    executor = await executors.run(spec, isolation=isolation, environment=environment)
    try:
        assert await executor.exit_code() == 0, executor.said
        assert "init SUCCEEDED" in [f"{each.step} {each.status}" for each in hub.facts_of(StepStatus)], hub.log()
    finally:
        await hub.stop()
    return executor


def engine_directory(tmp_path: Path, job: str) -> Path:
    return tmp_path / f"engine-{job}"


async def download(executors: ExecutorProcesses, home: Path) -> None:
    """What the runner does with what an attempt reports."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    context = DownloadContext(executors.cache, environment | {"HOME": str(home)}, [])
    assert await provider_download.download("tofu", FAKE.folder, context)
    assert not await provider_download.download("tofu", FAKE.folder, context), "it has it"


def link_of(executors: ExecutorProcesses, job: str) -> Path:
    """The module's own plug-in, which is a link to the package that it uses."""
    return executors.workspaces / f"{job}.1" / ".terraform" / "providers" / FAKE.folder / plugins.platform()


async def test_what_a_job_downloads_is_its_own_and_what_the_runner_gets_is_used_by_the_next(
    executors: ExecutorProcesses, home: Path, tmp_path: Path
) -> None:
    """Every job could write to the cache from which all other jobs run plug-ins."""
    source = module(tmp_path / "m", main=MAIN)
    first = await run(executors, home, tmp_path, source)
    assert os.path.realpath(link_of(executors, "job_1")).startswith(str(tmp_path / "engine-"))
    assert downloads.read(first.directory) == MissingDownloads("tofu", [FAKE.folder])
    await download(executors, home)
    shared = plugins.shared_cache(executors.cache)
    package = shared / FAKE.folder / plugins.platform()
    assert sorted(path.name for path in package.iterdir()) == ["LICENSE", "terraform-provider-fake_v1.2.3"]
    assert plugins.checksum_file(shared, FAKE).read_text() == plugins.checksum(package)
    (tmp_path / "mirror").rename(tmp_path / "away")
    (tmp_path / "mirror" / FAKE.address).mkdir(parents=True)
    lock = (executors.workspaces / "job_1.1" / ".terraform.lock.hcl").read_text()
    assert plugins.checksum(package) in lock, "the checksum is the engine's own"
    (tmp_path / "m" / ".terraform.lock.hcl").write_text(lock)
    second = await run(executors, home, tmp_path, module(tmp_path / "m", main=MAIN), "job_2")
    assert os.readlink(link_of(executors, "job_2")) == str(package), (
        "it is named directly: a plan that is kept needs no attempt"
    )
    assert downloads.read(second.directory) is None


async def test_a_package_that_the_lock_file_does_not_accept_is_not_used(
    executors: ExecutorProcesses, home: Path, tmp_path: Path
) -> None:
    """A lock file of another machine often has no checksum that a directory can be compared with."""
    shared = executors.cache / "plugins" / FAKE.folder / plugins.platform()
    shared.mkdir(parents=True)
    (shared / "terraform-provider-fake_v1.2.3").write_text("poisoned")
    shared.with_name(f"{shared.name}.h1").write_text(plugins.checksum(shared))
    await run(executors, home, tmp_path, module(tmp_path / "m", main=MAIN))
    lock = (executors.workspaces / "job_1.1" / ".terraform.lock.hcl").read_text()
    assert os.path.realpath(link_of(executors, "job_1")) == str(shared), "without a lock file the cache is believed"
    good = plugins.checksum(shared)
    (tmp_path / "m" / ".terraform.lock.hcl").write_text(lock.replace(good, _checksum_of_mirror(tmp_path)))
    await run(executors, home, tmp_path, module(tmp_path / "m", main=MAIN), "job_2")
    assert os.path.realpath(link_of(executors, "job_2")).startswith(str(tmp_path / "engine-"))


async def test_a_package_without_a_checksum_in_the_cache_is_not_used(
    executors: ExecutorProcesses, home: Path, tmp_path: Path
) -> None:
    shared = executors.cache / "plugins" / FAKE.folder / plugins.platform()
    shared.mkdir(parents=True)
    (shared / "terraform-provider-fake_v1.2.3").write_text("poisoned")
    await run(executors, home, tmp_path, module(tmp_path / "m", main=MAIN))
    assert os.path.realpath(link_of(executors, "job_1")).startswith(str(tmp_path / "engine-"))
    await download(executors, home)
    assert (shared / "LICENSE").exists(), "the runner's own takes its place"


async def test_a_cache_that_the_operator_made_is_used_and_not_written(
    executors: ExecutorProcesses, home: Path, tmp_path: Path
) -> None:
    operators = tmp_path / "operators"
    package = operators / FAKE.folder / plugins.platform()
    package.mkdir(parents=True)
    with zipfile.ZipFile(next((tmp_path / "mirror").rglob("*.zip"))) as packed:
        packed.extractall(package)
    (package / "terraform-provider-fake_v1.2.3").chmod(0o755)
    await run(executors, home, tmp_path, module(tmp_path / "m", main=MAIN), TF_PLUGIN_CACHE_DIR=str(operators))
    assert os.path.realpath(link_of(executors, "job_1")) == str(package)
    assert [path for path in operators.rglob("*") if path.suffix == ".lock"] == []


def _checksum_of_mirror(tmp_path: Path) -> str:
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(next((tmp_path / "mirror").rglob("*.zip"))) as packed:
        packed.extractall(folder)
    return plugins.checksum(folder)


async def test_an_unexpected_error_of_one_download_ends_neither_the_cache_nor_the_runner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Any error that was neither an OSError nor a timeout ended the task, its group, and the runner with all its jobs."""
    cache, done = DownloadCache(tmp_path, {}, []), asyncio.Event()

    async def failing(engine_name: str, item: str, _: DownloadContext) -> bool:
        if item.endswith("1.0.0"):
            raise ValueError("a name that nobody expected")
        done.set()
        return True

    monkeypatch.setattr(provider_download, "download", failing)
    async with asyncio.timeout(10), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(cache.run())
        cache.want("tofu", [f"registry.opentofu.org/a/b/{version}" for version in ("1.0.0", "2.0.0")])
        await done.wait()
        running.cancel()
    assert "a name that nobody expected" in caplog.text


@pytest.mark.parametrize("item", ["", "1.2.3", "../../etc/1.2.3", "registry.opentofu.org/a/b/../../c", 'x"/y/z/1.2.3'])
async def test_a_download_that_is_not_the_folder_of_a_provider_is_refused(tmp_path: Path, item: str) -> None:
    """The text comes from the lock file of a module, and becomes part of a path and of a configuration."""
    with pytest.raises(Invalid, match="not the folder of a provider"):
        await provider_download.download("tofu", item, DownloadContext(tmp_path, {}, []))
