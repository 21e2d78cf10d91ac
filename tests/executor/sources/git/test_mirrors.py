"""A runner's mirrors are shared by its attempts, survive what happens to them, and do not grow without end."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from terracrew.errors import NotFound, Unavailable
from terracrew.executor.sources.contract import FetchLimits
from terracrew.executor.sources.git import mirror, mirrors
from terracrew.protocol.spec import GitSource
from tests.executor.sources.git.conftest import Fetches
from tests.machine.git_https import GitHttps
from tests.machine.repositories import MODULE, Repository

pytestmark = pytest.mark.feature("J5.git")


def packs(folder: Path) -> list[Path]:
    return list((folder / "objects" / "pack").glob("*.pack"))


async def test_what_has_not_changed_is_not_fetched_again_and_history_never(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    for number in range(3):
        repository.commit(f"change {number}", main=f"# {number}\n")
    source = GitSource(server.of("network"), branch="main")
    first = await fetch(source)
    (folder,) = fetch.mirrors
    assert mirror_log(repository, folder, first.commit) == 1
    server.requests.clear()
    assert await fetch(source) == first
    asked = len(server.requests)
    assert asked <= 3, "the repository was asked once for its revision"
    await fetch(GitSource(server.of("network"), commit=first.commit))
    assert len(server.requests) == asked, "a commit that is there needs no question"
    assert len(packs(folder)) == 1


def mirror_log(repository: Repository, folder: Path, commit: str) -> int:
    return len(repository.git(f"--git-dir={folder}", "log", "--format=%H", commit).splitlines())


async def test_attempts_that_fetch_the_same_repository_at_once_all_get_it(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    for name in ("one", "two", "three"):
        repository.git("branch", name)
        repository.commit(name, main=f"# {name}\n")
    names = ["one", "two", "three", "main"] * 2
    found = await asyncio.gather(*(fetch(GitSource(server.of("network"), branch=name)) for name in names))
    assert [each.commit for each in found] == [repository.git("rev-parse", name) for name in names]
    assert len(fetch.mirrors) == 1


FETCH = """
import asyncio, sys
from pathlib import Path
from terracrew.executor.sources.contract import FetchContext
from terracrew.executor.sources.git.fetcher import GitFetcher
from terracrew.executor.sources.contract import FetchLimits
from terracrew.protocol.spec import GitSource
from terracrew.testing.source_contract import no_transfer
import os
cache, workspace, url = sys.argv[1:]
context = FetchContext(Path(cache), [], no_transfer(), environment=dict(os.environ), owner="org_1")
asyncio.run(GitFetcher(FetchLimits(silence_seconds=2)).fetch(GitSource(url), Path(workspace), context))
"""
"""Fetches as an executor does, in a process that a test can kill."""


async def test_an_executor_that_is_killed_in_the_middle_of_a_fetch_costs_the_next_one_nothing(
    server: GitHttps, repository: Repository, fetch: Fetches, tmp_path: Path
) -> None:
    (repository.folder / "large").write_bytes(os.urandom(300_000))
    commit = repository.commit("large")
    server.stops_after = 100_000
    (workspace := tmp_path / "killed").mkdir()
    arguments = [str(fetch.context.cache), str(workspace), server.of("network")]
    killed = subprocess.Popen([sys.executable, "-c", FETCH, *arguments], env=dict(fetch.context.environment))
    assert await asyncio.to_thread(server.stopped.wait, 60)
    killed.kill()
    killed.wait()
    (folder,) = fetch.mirrors
    with mirrors.try_to_change(folder.with_name(folder.name + ".lock")) as lock:
        assert lock is None, "the git of the dead executor still writes, and has the lock"
    server.stops_after = 0
    repository.git("rm", "--quiet", "large")
    last = repository.commit("small")
    assert commit != last
    assert (await fetch(GitSource(server.of("network")))).commit == last
    assert fetch.files == {"main.tf": MODULE}
    assert not list(folder.rglob("tmp_*"))


async def test_another_organization_does_not_get_what_was_fetched_for_the_first(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    resolved = await fetch(GitSource(server.of("network")))
    shutil.rmtree(repository.folder / ".git")
    source = GitSource(server.of("network"), commit=resolved.commit)
    assert (await fetch(source)).commit == resolved.commit
    with pytest.raises(NotFound, match="there is no repository at this address"):
        await fetch(source, owner="org_2")


@pytest.mark.parametrize("damage", ["pack", "objects", "config", "lock", "ref"])
async def test_a_damaged_mirror_is_fetched_again(
    server: GitHttps, repository: Repository, fetch: Fetches, damage: str
) -> None:
    source = GitSource(server.of("network"))
    await fetch(source)
    (folder,) = fetch.mirrors
    if damage == "pack":
        for file in packs(folder):
            file.chmod(0o600)
            data = bytearray(file.read_bytes())
            data[20:60] = b"\0" * 40
            file.write_bytes(data)
    elif damage == "objects":
        shutil.rmtree(folder / "objects" / "pack")
    elif damage == "config":
        (folder / "config").write_text("[core\n")
    elif damage == "lock":
        (folder / "shallow.lock").touch()
        (folder / "objects" / "pack" / "tmp_pack_x").touch()
        repository.commit("second", more="# more\n")
    else:
        for ref in (folder / "refs" / "terracrew").iterdir():
            ref.write_text("nonsense\n")
        repository.commit("second", more="# more\n")
    resolved = await fetch(source)
    assert resolved.commit == repository.git("rev-parse", "HEAD")
    assert fetch.files["main.tf"] == MODULE
    assert len(fetch.mirrors) == 1


async def test_a_repository_that_is_damaged_on_its_server_is_not_taken_for_a_damaged_mirror(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    """The message was that the cached copy on this runner is damaged."""
    blob = repository.git("rev-parse", "HEAD:main.tf")
    (repository.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(Unavailable, match=r"is damaged on its server.*git fsck"):
        await fetch(GitSource(server.of("network")))


async def test_a_repository_that_cannot_be_reached_does_not_cost_the_mirror(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    await fetch(GitSource(server.of("network")))
    shutil.move(repository.folder, repository.folder.with_name("away"))
    with pytest.raises(NotFound, match="there is no repository at this address, or the runner's credentials"):
        await fetch(GitSource(server.of("network"), commit="b" * 40))
    shutil.move(repository.folder.with_name("away"), repository.folder)
    (folder,) = fetch.mirrors
    assert len(packs(folder)) == 1


async def test_mirrors_that_are_unused_or_too_large_are_removed_and_those_in_use_stay(
    server: GitHttps, repository: Repository, fetch: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        Repository(server.root / name).commit(main=MODULE)
        await fetch(GitSource(server.of(name)))
    a, b, c = sorted(fetch.mirrors, key=lambda folder: folder.stat().st_mtime)
    month = time.time() - 40 * 86400
    os.utime(a, (month, month))
    os.utime(b, (month, month))
    with mirrors.hold(b.with_name(b.name + ".lock"), "read", lambda _: None):
        await fetch(GitSource(server.of("network")))
    assert not a.exists()
    assert not a.with_name(a.name + ".lock").exists()
    assert b.exists()
    assert c.exists()
    monkeypatch.setattr(mirrors, "MAX_BYTES", 0)
    repository.commit("second")
    await fetch(GitSource(server.of("network")))
    assert len(fetch.mirrors) == 1


async def test_the_packs_of_a_mirror_are_combined(
    server: GitHttps, repository: Repository, fetch: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "MAX_PACKS", 3)
    monkeypatch.setattr(mirror, "MAX_KEPT_REVISIONS", 2)
    commits: list[str] = []
    for number in range(6):
        commits.append(repository.commit(f"change {number}", main=f"# {number}\n"))
        await fetch(GitSource(server.of("network")))
    (folder,) = fetch.mirrors
    assert len(packs(folder)) <= 3
    assert (await fetch(GitSource(server.of("network"), commit=commits[0]))).commit == commits[0]
    assert fetch.files == {"main.tf": "# 0\n"}


async def test_an_attempt_that_waits_for_a_mirror_says_so_and_does_not_wait_forever(
    server: GitHttps, repository: Repository, fetch: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fetch(GitSource(server.of("network")))
    repository.commit("second")
    (folder,) = fetch.mirrors
    monkeypatch.setattr(mirrors, "PROGRESS_SECONDS", 0.1)
    fetch.limits = FetchLimits(total_seconds=1.5)
    with (
        mirrors.hold(folder.with_name(folder.name + ".lock"), "change", lambda _: None),
        pytest.raises(Unavailable, match=r"waiting for another job that fetches .* took longer than 2 s"),
    ):
        await fetch(GitSource(server.of("network")))
    assert fetch.said == [f"Waiting for another job of this runner that fetches {server.of('network')}"]
