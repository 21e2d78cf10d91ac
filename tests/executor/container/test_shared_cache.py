"""The cache that containers keep between jobs: who may read what of it, and how plug-ins get into it. The real OpenTofu runs."""

import fcntl
import os
from pathlib import Path

import pytest

from terracrew.attempt.downloads import MissingDownloads
from terracrew.errors import Invalid
from terracrew.executor.container import shared_cache
from terracrew.executor.engines.hcl import lockfile, plugins
from terracrew.protocol.start import ExecutorStart, IsolationSettings
from terracrew.runner.dispatch.containers import container_start
from terracrew.runner.dispatch.docker import bindings
from tests.machine import providers

pytestmark = pytest.mark.feature("J14.persist")
ITEM = "terracrew.test/terracrew/testing/1.0.0"
FORGED_SETTINGS = 'provider_installation {{\n  filesystem_mirror {{\n    path = "{path}"\n  }}\n}}\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that was prepared for executors that run as the user of the test."""
    monkeypatch.setattr(shared_cache, "EXECUTOR_UID", os.getuid())
    (tmp_path / "cache").mkdir()
    shared_cache.prepare(tmp_path / "cache")
    return tmp_path / "cache"


def start(cache: Path, **environment: str) -> ExecutorStart:
    given = {name: value for name, value in os.environ.items() if not name.startswith("TF_")} | environment
    return ExecutorStart("http://127.0.0.1", "/nowhere", str(cache), "/nowhere", "/nowhere", environment=given)


def test_engines_can_read_the_plug_ins_and_nothing_else(cache: Path) -> None:
    """The engines of all modules have the same user, and a source of another module is none of their business."""
    found = {each.name: each.stat().st_mode & 0o777 for each in (cache, *cache.iterdir())}
    assert found == {"cache": 0o711, "plugins": 0o755, "archives": 0o700, "git": 0o700, "partial": 0o700}
    (cache / "archives").chmod(0o755)
    shared_cache.prepare(cache)
    assert (cache / "archives").stat().st_mode & 0o777 == 0o700


def test_a_link_in_place_of_a_folder_is_refused(cache: Path, tmp_path: Path) -> None:
    (cache / "git").rmdir()
    (cache / "git").symlink_to(tmp_path)
    with pytest.raises(Invalid, match="is not a directory"):
        shared_cache.prepare(cache)


@pytest.mark.engine
async def test_what_a_job_had_to_download_is_in_the_cache_for_the_next_one(
    cache: Path, tmp_path: Path, tofu: str
) -> None:
    variables = {
        "TF_CLI_CONFIG_FILE": str(providers.configuration(tmp_path)),
        "PATH": f"{Path(tofu).parent}:/usr/bin:/bin",
    }
    await shared_cache.download(cache, start(cache, **variables), MissingDownloads("tofu", [ITEM, "not a provider"]))
    provider = lockfile.provider_of(ITEM)
    assert provider is not None
    shared = plugins.shared_cache(cache)
    assert plugins.is_intact(shared, provider)
    assert {each.stat().st_mode & 0o005 for each in shared.rglob("*") if each.is_dir()} == {0o005}
    assert [each.name for each in (cache / "partial").iterdir()] == ["lock"]


@pytest.mark.engine
async def test_a_configuration_in_the_home_of_the_job_is_not_used(cache: Path, tmp_path: Path, tofu: str) -> None:
    """The home belongs to the engine, so a module could have named a mirror of forged plug-ins there."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".tofurc").write_text(FORGED_SETTINGS.format(path=providers.mirror()))
    given = start(cache, HOME=str(home), PATH=f"{Path(tofu).parent}:/usr/bin:/bin")
    await shared_cache.download(cache, given, MissingDownloads("tofu", [ITEM]))
    assert list((cache / "plugins").rglob("*.h1")) == []


async def test_a_container_does_not_wait_for_the_download_of_another_one(cache: Path) -> None:
    with (cache / "partial" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        await shared_cache.download(cache, start(cache), MissingDownloads("no engine of this name", [ITEM]))


def test_engines_are_not_given_the_cache_of_the_host(tmp_path: Path) -> None:
    bound = bindings.parse(f"{tmp_path}:/terracrew-cache,/srv/kube:/home/kube:ro").bindings
    isolation = container_start.with_bindings(IsolationSettings(), bound)
    assert (isolation.read_paths, isolation.write_paths) == (["/home/kube"], [])
    with pytest.raises(ValueError, match="who write to it"):
        bindings.parse("/srv/cache:/terracrew-cache:ro")
