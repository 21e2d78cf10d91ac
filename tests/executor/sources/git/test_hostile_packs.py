"""A pack of a merge result is content of strangers: what is wrong with it is refused, and the mirror of others stays as it was."""

import subprocess
import zlib
from pathlib import Path

import msgspec
import pytest

from terracrew.errors import Invalid, TerracrewError, TooLarge
from terracrew.executor.sources.contract import FetchLimits
from terracrew.protocol.spec import GitSource
from tests.executor.sources.git.conftest import Fetches
from tests.executor.sources.git.merges import MergeServer, change, source_of
from tests.machine.git_https import GitHttps
from tests.machine.repositories import Repository


class Hostile:
    """Makes packs of any objects of a repository that nobody serves."""

    def __init__(self, folder: Path, url: str, base: Repository) -> None:
        self.own, self._url, self._base = Repository(folder), url, base
        self.own.git("fetch", "-q", str(base.folder), "main")
        self.base = self.own.git("rev-parse", "FETCH_HEAD")

    def pack(self, *objects: str) -> bytes:
        given = "".join(f"{each}\n" for each in objects).encode()
        return subprocess.run(
            ["git", "pack-objects", "--stdout", "-q"], cwd=self.own.folder, input=given, capture_output=True, check=True
        ).stdout

    def tree(self, *lines: str) -> str:
        return self.own.git("mktree", "--missing", given="".join(f"{line}\n" for line in lines).encode())

    def commit(self, tree: str, *parents: str) -> str:
        return self.own.git("commit-tree", "-m", "made by hand", *(x for each in parents for x in ("-p", each)), tree)

    def source(self, commit: str, data: bytes) -> GitSource:
        return source_of(self._url, commit, self.base, self.base, data)


@pytest.fixture
def hostile(tmp_path: Path, server: GitHttps, repository: Repository) -> Hostile:
    return Hostile(tmp_path / "hostile", server.of("network"), repository)


async def refused(fetch: Fetches, source: GitSource, data: bytes, match: str) -> None:
    """The source is refused, and the mirror has neither the pack nor a folder of it, and is not fetched again."""
    with pytest.raises(Invalid, match=match):
        await fetch(source, archive=data)
    assert list(fetch.workspace.iterdir()) == []
    (mirror,) = fetch.mirrors
    assert not list(mirror.glob("incoming-*"))
    assert not (mirror / "refs" / "terracrew" / source.commit).exists()
    assert len(list((mirror / "objects" / "pack").glob("*.pack"))) == 1
    assert not any("cannot use the copy" in line for line in fetch.said)


@pytest.mark.parametrize("damage", ["cut", "changed", "extended", "empty", "header", "many"])
async def test_a_pack_that_is_damaged(
    fetch: Fetches, hostile: Hostile, repository: Repository, server: GitHttps, damage: str
) -> None:
    await fetch(GitSource(server.of("network"), commit=hostile.base))
    blob = hostile.own.blob(b"# x\n")
    tree = hostile.tree(f"100644 blob {blob}\tx.tf")
    commit = hostile.commit(tree)
    data = hostile.pack(blob, tree, commit)
    wrong = {
        "cut": data[:-5],
        "changed": data[:20] + bytes([data[20] ^ 1]) + data[21:],
        "extended": data + b"x",
        "empty": b"",
        "header": b"PACK\0\0\0\3" + data[8:],
        "many": data[:8] + b"\xff\xff\xff\xff" + data[12:],
    }[damage]
    await refused(fetch, hostile.source(commit, wrong), wrong, "merge result")


async def test_a_pack_that_lacks_or_adds_objects(fetch: Fetches, hostile: Hostile, server: GitHttps) -> None:
    await fetch(GitSource(server.of("network"), commit=hostile.base))
    blob, other = hostile.own.blob(b"# x\n"), hostile.own.blob(b"# other\n")
    tree, other_tree = hostile.tree(f"100644 blob {blob}\tx.tf"), hostile.tree(f"100644 blob {other}\to.tf")
    commit, other_commit = hostile.commit(tree), hostile.commit(other_tree)
    for objects, match in (
        ((tree, commit), "git says"),
        ((blob, commit), "git says"),
        ((blob, tree), "git says"),
        ((blob, tree, commit, other), "do not belong"),
        ((blob, tree, commit, other, other_tree, other_commit), "do not belong"),
    ):
        data = hostile.pack(*objects)
        await refused(fetch, hostile.source(commit, data), data, match)
    data = hostile.pack(other, other_tree, other_commit)
    await refused(fetch, hostile.source(commit, data), data, "git says")
    child = hostile.commit(tree, other_commit)
    data = hostile.pack(blob, tree, child)
    await refused(fetch, hostile.source(child, data), data, "git says")


@pytest.mark.parametrize("name", [".git", ".GIT", "..", "git~1"])
async def test_a_path_of_git_itself(fetch: Fetches, hostile: Hostile, server: GitHttps, name: str) -> None:
    await fetch(GitSource(server.of("network"), commit=hostile.base))
    blob = hostile.own.blob(b"[core]\n\tfsmonitor = touch /tmp/x\n")
    config = hostile.tree(f"100644 blob {blob}\tconfig")
    tree = hostile.tree(f"040000 tree {config}\t{name}")
    commit = hostile.commit(tree)
    data = hostile.pack(blob, config, tree, commit)
    await refused(fetch, hostile.source(commit, data), data, "merge result|refused")


async def test_a_submodule_that_names_a_commit_of_the_pack(fetch: Fetches, hostile: Hostile, server: GitHttps) -> None:
    await fetch(GitSource(server.of("network"), commit=hostile.base))
    blob = hostile.own.blob(b"# x\n")
    inner = hostile.commit(hostile.tree(f"100644 blob {blob}\tx.tf"))
    tree = hostile.tree(f"160000 commit {inner}\tsub", f"100644 blob {blob}\tx.tf")
    commit = hostile.commit(tree)
    data = hostile.pack(blob, tree, commit, inner, hostile.tree(f"100644 blob {blob}\tx.tf"))
    await refused(fetch, hostile.source(commit, data), data, "do not belong")


async def test_a_link_that_leads_out(fetch: Fetches, hostile: Hostile) -> None:
    blob = hostile.own.blob(b"/etc/passwd")
    tree = hostile.tree(f"120000 blob {blob}\tx.tf")
    commit = hostile.commit(tree)
    data = hostile.pack(blob, tree, commit)
    with pytest.raises(Invalid, match="leads out of it"):
        await fetch(hostile.source(commit, data), archive=data)


async def test_a_bomb_of_one_large_file_is_ended(fetch: Fetches, hostile: Hostile, server: GitHttps) -> None:
    """Sixty-four megabytes of zeros take 64 KB. Neither memory nor the workspace gets more than is allowed."""
    await fetch(GitSource(server.of("network"), commit=hostile.base))
    blob = hostile.own.blob(bytes(64 << 20))
    tree = hostile.tree(f"100644 blob {blob}\tx.tf")
    commit = hostile.commit(tree)
    data = hostile.pack(blob, tree, commit)
    assert len(data) < 200_000
    fetch.limits = FetchLimits(memory_bytes=60 << 20)
    with pytest.raises(TerracrewError):
        await fetch(hostile.source(commit, data), archive=data)
    assert list(fetch.workspace.iterdir()) == []


async def test_a_bomb_of_trees_that_repeat_themselves_is_ended(fetch: Fetches, hostile: Hostile) -> None:
    """Ten levels of ten equal folders are ten objects and ten thousand million files."""
    blob = hostile.own.blob(b"# x\n")
    objects = [blob]
    tree = hostile.tree(f"100644 blob {blob}\tx.tf")
    for _ in range(10):
        objects.append(tree)
        tree = hostile.tree(*(f"040000 tree {tree}\t{number}" for number in range(10)))
    commit = hostile.commit(tree)
    data = hostile.pack(*objects, tree, commit)
    fetch.limits = FetchLimits(answer_bytes=1 << 20)
    with pytest.raises(TooLarge):
        await fetch(hostile.source(commit, data), archive=data)


async def test_a_pack_that_is_not_the_one_of_the_job(
    fetch: Fetches, tmp_path: Path, server: GitHttps, repository: Repository
) -> None:
    change(repository, added="# added\n")
    source, data = await MergeServer(tmp_path, server, repository).merge()
    with pytest.raises(Invalid, match="did not arrive whole"):
        await fetch(source, archive=zlib.compress(data))
    assert source.merge
    changed = msgspec.structs.replace(source, merge=msgspec.structs.replace(source.merge, sha256=""))
    await fetch(changed, archive=data)
