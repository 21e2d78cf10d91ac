"""An executor writes what the server has merged: exactly what git itself would have merged, and nothing else."""

import asyncio
import os
import random
import shutil
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.executor.sources.archive import ArchiveCache
from terracrew.protocol.events import SourceResolved
from tests.executor.sources.git.conftest import Fetches
from tests.executor.sources.git.merges import MergeServer, change, without_pack
from tests.machine import git_https
from tests.machine.git_https import GitHttps
from tests.machine.repositories import Repository


@pytest.fixture
def merges(tmp_path: Path, server: GitHttps, repository: Repository) -> MergeServer:
    return MergeServer(tmp_path, server, repository)


async def test_the_merge_result_is_written_and_named(
    merges: MergeServer, repository: Repository, fetch: Fetches, server: GitHttps
) -> None:
    head = change(repository, added="# added\n")
    base = repository.commit("base", other="# other\n")
    source, pack = await merges.merge()
    found = await fetch(source, archive=pack)
    assert sorted(fetch.files) == ["added.tf", "main.tf", "other.tf"]
    words = f"pull request merge of {head[:12]} into main at {base[:12]}"
    assert found == SourceResolved(
        f"git:{source.commit}",
        f"git {server.of('network')}, {words}, commit {source.commit[:12]}",
        commit=source.commit,
        revision=words,
    )
    assert any(words in line and source.commit in line for line in fetch.said)


@pytest.mark.parametrize("is_warm", [False, True])
async def test_a_later_attempt_gets_the_same_from_any_mirror(
    merges: MergeServer, repository: Repository, fetch: Fetches, server: GitHttps, is_warm: bool
) -> None:
    change(repository, added="# added\n")
    repository.commit("base", other="# other\n")
    source, pack = await merges.merge()
    first = await fetch(source, archive=pack)
    files = fetch.files
    repository.commit("moved", other="# moved\n")
    server.requests.clear()
    if not is_warm:
        shutil.rmtree(fetch.context.cache)
    assert await fetch(source, archive=pack, digest=first.digest, revision=first.revision) == first
    assert fetch.files == files
    assert bool(server.requests) is not is_warm, "a warm mirror needs no network"


async def test_a_pack_that_is_in_the_cache_is_not_requested(
    merges: MergeServer, repository: Repository, fetch: Fetches
) -> None:
    change(repository, added="# added\n")
    repository.commit("base", other="# other\n")
    source, pack = await merges.merge()
    assert source.merge
    ArchiveCache(fetch.context.cache / "archives").put(source.merge.sha256, pack)
    await fetch(source)  # there is nobody to ask
    assert sorted(fetch.files) == ["added.tf", "main.tf", "other.tf"]


async def test_a_base_that_the_repository_no_longer_gives_out_is_named(
    merges: MergeServer, repository: Repository, fetch: Fetches
) -> None:
    change(repository, added="# added\n")
    base = repository.commit("base", other="# other\n")
    source, pack = await merges.merge()
    repository.git("reset", "-q", "--hard", "HEAD~1")
    repository.git("branch", "-D", "change")
    repository.git("update-ref", "-d", "refs/pull/1/head")
    repository.git("reflog", "expire", "--expire=now", "--all")
    repository.git("gc", "-q", "--prune=now")
    with pytest.raises(NotFound, match=f"no commit {base} \\(any more\\)"):
        await fetch(source, archive=pack)
    with pytest.raises(Conflict, match="an earlier attempt of this job has used the commit"):
        await fetch(source, archive=pack, digest=f"git:{source.commit}")


async def test_an_old_server_gives_the_base_by_its_branch(
    merges: MergeServer, repository: Repository, fetch: Fetches, server: GitHttps
) -> None:
    change(repository, added="# added\n")
    repository.commit("base", other="# other\n")
    source, pack = await merges.merge()
    server.is_old = True
    await fetch(source, archive=pack)
    assert "added.tf" in fetch.files


async def test_without_the_pack_an_older_executor_says_that_there_is_no_such_commit(
    merges: MergeServer, repository: Repository, fetch: Fetches
) -> None:
    """What an executor of 0.1.0 does with such a job, which it should not get."""
    change(repository, added="# added\n")
    repository.commit("base", other="# other\n")
    source, _ = await merges.merge()
    with pytest.raises(NotFound, match=f"no commit {source.commit}"):
        await fetch(without_pack(source))


@pytest.mark.parametrize(
    "wrong",
    [
        {"base": "x"},
        {"head": "--help"},
        {"base_ref": "main"},
        {"base_ref": "refs/../x"},
        {"base_ref": "--upload-pack=x"},
    ],
)
async def test_a_merge_result_that_git_could_misunderstand_is_refused(
    merges: MergeServer, repository: Repository, fetch: Fetches, wrong: dict[str, str]
) -> None:
    change(repository, added="# added\n")
    source, pack = await merges.merge()
    assert source.merge
    with pytest.raises(Invalid, match=r"source\.merge"):
        await fetch(msgspec.structs.replace(source, merge=msgspec.structs.replace(source.merge, **wrong)), archive=pack)


NAMES = ("a.tf", "b.tf", "d/a.tf", "d/e/b.tf", "link", "Case.tf", "x y.tf")


def _disturb(folder: Path, seed: int) -> None:
    """Write, remove, rename, link and make executable a few files."""
    choose = random.Random(seed)
    for _ in range(choose.randint(1, 4)):
        path = folder / choose.choice(NAMES)
        path.parent.mkdir(parents=True, exist_ok=True)
        match choose.choice(("write", "write", "append", "remove", "rename", "link", "mode")):
            case "write":
                path.unlink(missing_ok=True)
                path.write_text(f"# {choose.randint(0, 3)}\n" * choose.randint(1, 20))
            case "append" if path.is_file() and not path.is_symlink():
                path.write_text(path.read_text() + "# appended\n")
            case "remove":
                path.unlink(missing_ok=True)
            case "rename" if path.is_file():
                path.rename(path.with_name("renamed.tf"))
            case "link":
                path.unlink(missing_ok=True)
                path.symlink_to("kept.tf")
            case "mode" if path.is_file() and not path.is_symlink():
                path.chmod(0o755)
            case _:
                pass


def _content(folder: Path) -> dict[str, tuple[str, object]]:
    found: dict[str, tuple[str, object]] = {}
    for path in folder.rglob("*"):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = "link", os.readlink(path)
        elif path.is_file() and not name.startswith(".git/"):
            found[name] = "program" if path.stat().st_mode & 0o100 else "file", path.read_bytes()
    return found


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(seeds=st.tuples(*[st.integers(0, 10_000)] * 3))
def test_what_is_written_is_what_git_merges(seeds: tuple[int, int, int]) -> None:
    with tempfile.TemporaryDirectory() as name, git_https.running(Path(name) / "served") as server:
        folder = Path(name)
        repository = Repository(server.root / "network")
        for each in NAMES[:4]:
            (repository.folder / each).parent.mkdir(parents=True, exist_ok=True)
            (repository.folder / each).write_text("".join(f"# {each} {line}\n" for line in range(20)))
        (repository.folder / "d" / "kept.tf").write_text("# kept\n")
        (repository.folder / "d" / "e" / "kept.tf").write_text("# kept\n")
        repository.commit("first", kept="# kept\n")
        _disturb(repository.folder, seeds[0])
        repository.commit("second")
        repository.git("checkout", "-q", "-b", "change")
        _disturb(repository.folder, seeds[1])
        repository.commit("change")
        repository.git("checkout", "-q", "-f", "main")
        _disturb(repository.folder, seeds[2])
        repository.commit("base")
        clone = Repository(folder / "clone")
        clone.git("fetch", "-q", str(repository.folder), "main:main", "change:change", "--update-head-ok")
        clone.git("reset", "-q", "--hard", "main")
        try:
            clone.git("merge", "-q", "--no-edit", "change")
        except AssertionError:
            assume(False)  # a conflict
        asyncio.run(_check_workspace(folder, server, repository, clone))


async def _check_workspace(folder: Path, server: GitHttps, repository: Repository, clone: Repository) -> None:
    source, pack = await MergeServer(folder, server, repository).merge()
    fetch = Fetches(folder, server.environment)
    await fetch(source, archive=pack)
    assert _content(fetch.workspace) == _content(clone.folder)
