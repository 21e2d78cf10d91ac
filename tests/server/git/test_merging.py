"""The server merges like git itself, always into the same commit, and packs what a runner lacks."""

import os
import subprocess
from pathlib import Path

import pytest

from terracrew.errors import NotFound, TooLarge
from terracrew.server.git import merging, trees
from terracrew.server.git.merging import MergedTree
from tests.machine.git_https import GitHttps
from tests.machine.repositories import Repository
from tests.server.git.conftest import KEY, WatchedRepository

MAIN, PULL = "refs/heads/main", "refs/pull/12/head"


async def merged(watched: WatchedRepository, repository: Repository) -> MergedTree:
    repository.git("update-ref", PULL, "change")
    found = (await watched.fetch(MAIN, PULL)).commits
    return await merging.merge(watched.mirrors, KEY, found[MAIN], found[PULL])


def branch(repository: Repository, **files: str) -> str:
    repository.git("checkout", "-q", "-B", "change", "main")
    commit = repository.commit("change", **files)
    repository.git("checkout", "-q", "main")
    return commit


def own_merge(repository: Repository) -> str:
    """Merge with git itself in the working tree, and return the tree."""
    repository.git("checkout", "-q", "-B", "result", "main")
    repository.git("merge", "-q", "--no-ff", "-m", "merged", "change")
    tree = repository.git("rev-parse", "HEAD^{tree}")
    repository.git("checkout", "-q", "main")
    return tree


async def test_the_merge_is_that_of_git_and_its_commit_is_always_the_same(
    watched: WatchedRepository, repository: Repository, server: GitHttps, tmp_path: Path
) -> None:
    head = branch(repository, added="# added\n")
    base = repository.commit("base", other="# other\n")
    found = await merged(watched, repository)
    assert (found.base, found.head, found.problem, found.is_unchanged) == (base, head, "", False)
    assert found.tree == own_merge(repository)
    written = (await watched.mirrors.run(KEY, "cat-file", "-p", found.commit, what="x")).output.decode()
    date = repository.git("show", "-s", "--format=%ct", head)
    person = f"Terracrew <terracrew@localhost> {date} +0000"
    assert written == (f"tree {found.tree}\nauthor {person}\ncommitter {person}\n\nMerge {head} into {base}\n"), (
        "no parents, and nothing that depends on this machine"
    )
    other = WatchedRepository(tmp_path / "other", server, repository)
    assert await merged(other, repository) == found


async def test_a_head_that_has_the_base_is_the_result_and_a_base_that_has_the_head_changes_nothing(
    watched: WatchedRepository, repository: Repository
) -> None:
    branch(repository, added="# added\n")
    ahead = await merged(watched, repository)
    assert ahead.tree == repository.git("rev-parse", "change^{tree}")
    assert not ahead.is_unchanged
    repository.git("merge", "-q", "--ff-only", "change")
    repository.commit("later", later="# later\n")
    behind = await merged(watched, repository)
    assert behind.tree == repository.git("rev-parse", "main^{tree}")
    assert behind.is_unchanged
    assert await trees.changed(watched.mirrors, KEY, behind.base, behind.commit) == []
    assert len(await merging.pack(watched.mirrors, KEY, behind.base, behind.commit)) < 300, "the commit alone"


async def test_a_conflict_names_its_paths(watched: WatchedRepository, repository: Repository) -> None:
    branch(repository, main="# a\n", **{f"file{n}": "# a\n" for n in range(12)})
    repository.commit("base", main="# b\n", **{f"file{n}": "# b\n" for n in range(12)})
    found = await merged(watched, repository)
    assert found.is_conflict
    assert (found.tree, found.commit) == ("", "")
    assert "main.tf" in found.conflicts
    assert len(found.conflicts) == 13
    assert found.problem.startswith(
        f"git cannot merge {found.head[:12]} into {found.base[:12]}: both change file0.tf, "
    )
    assert found.problem.endswith(" and 3 more")


async def test_histories_without_a_common_commit_have_no_merge_result(
    watched: WatchedRepository, repository: Repository
) -> None:
    repository.git("checkout", "-q", "--orphan", "change")
    repository.commit("another beginning", other="# x\n")
    repository.git("checkout", "-q", "main")
    found = await merged(watched, repository)
    assert found.is_conflict
    assert "no common history" in found.problem


async def test_commits_that_were_not_fetched_are_named(watched: WatchedRepository) -> None:
    base = (await watched.fetch()).commits[MAIN]
    with pytest.raises(NotFound, match="0123456789abcdef"):
        await merging.merge(watched.mirrors, KEY, base, "0123456789abcdef" * 2 + "01234567")


async def test_special_entries_and_an_empty_tree_are_merged(watched: WatchedRepository, repository: Repository) -> None:
    folder = repository.folder
    (folder / "link").symlink_to("main.tf")
    (folder / "Case.tf").write_text("# 1\n")
    (repository.folder / "sub").mkdir()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    repository.commit("special")
    repository.git("checkout", "-q", "-B", "change")
    (folder / "main.tf").chmod(0o755)
    repository.git("mv", "Case.tf", "case.tf")
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / 'x \t"ü\n.tf').write_text("# odd name\n")
    repository.commit("change")
    repository.git("checkout", "-q", "main")
    repository.commit("base", base="# base\n")
    found = await merged(watched, repository)
    assert found.tree == own_merge(repository)
    listed = {each.path: each.mode for each in await trees.entries(watched.mirrors, KEY, found.commit)}
    assert listed["main.tf"] == "100755"
    assert listed["link"] == "120000"
    assert listed["sub"] == "160000"
    assert "case.tf" in listed
    assert "Case.tf" not in listed
    changed = await trees.changed(watched.mirrors, KEY, found.base, found.commit)
    assert changed == ["Case.tf", "case.tf", 'deep/er/x \t"ü\n.tf', "main.tf"]
    repository.git("checkout", "-q", "-B", "change", "main")
    repository.git("rm", "-q", "-r", "--cached", ".")
    repository.git("commit", "-q", "-m", "empty")
    repository.git("checkout", "-q", "-f", "main")
    empty = await merged(watched, repository)
    assert await trees.entries(watched.mirrors, KEY, empty.commit) == []
    assert await merging.pack(watched.mirrors, KEY, empty.base, empty.commit)


async def test_a_pack_has_what_the_base_lacks_and_nothing_else(
    watched: WatchedRepository, repository: Repository, tmp_path: Path
) -> None:
    (repository.folder / "same").mkdir()
    (repository.folder / "same" / "file.tf").write_text("# same\n")
    repository.commit("same")
    base_text = "".join(f"# line {n}\n" for n in range(500))
    repository.commit("base", large=base_text)
    branch(repository, large=base_text + "# one more\n", added="# added\n")
    found = await merged(watched, repository)
    data = await merging.pack(watched.mirrors, KEY, found.base, found.commit)
    target = tmp_path / "target"
    subprocess.run(["git", "init", "-q", "--bare", str(target)], check=True)
    subprocess.run(["git", "-C", str(target), "index-pack", "--stdin"], input=data, check=True, capture_output=True)
    listed = subprocess.run(
        ["git", "-C", str(target), "cat-file", "--batch-all-objects", "--batch-check"], check=True, capture_output=True
    ).stdout.decode()
    assert sorted(line.split()[1] for line in listed.splitlines()) == ["blob", "blob", "commit", "tree"]
    with pytest.raises(TooLarge, match="split the pull request"):
        await merging.pack(watched.mirrors, KEY, found.base, found.commit, max_bytes=100)


async def test_three_thousand_changed_files(watched: WatchedRepository, repository: Repository) -> None:
    for number in range(3000):
        folder = repository.folder / f"m{number % 50}"
        folder.mkdir(exist_ok=True)
        (folder / f"f{number}.tf").write_text(f"# {number}\n")
    repository.git("checkout", "-q", "-b", "change")
    repository.commit("many")
    repository.git("checkout", "-q", "main")
    repository.commit("base", base="# base\n")
    found = await merged(watched, repository)
    assert len(await trees.changed(watched.mirrors, KEY, found.base, found.commit)) == 3000
    assert len(await merging.pack(watched.mirrors, KEY, found.base, found.commit)) > 100_000
    listed = [each for each in await trees.entries(watched.mirrors, KEY, found.tree) if each.path.startswith("m7/")]
    read = await trees.files(watched.mirrors, KEY, listed)
    assert len(read) == 60
    assert read["m7/f7.tf"] == b"# 7\n"


async def test_files_are_read_within_bounds(watched: WatchedRepository, repository: Repository) -> None:
    (repository.folder / "binary").write_bytes(os.urandom(1000) + b"\n\0\n")
    (repository.folder / "empty").write_bytes(b"")
    (repository.folder / "twin.tf").write_text((repository.folder / "main.tf").read_text())
    (repository.folder / "link").symlink_to("main.tf")
    (repository.folder / "sub").mkdir()
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},sub")
    commit = repository.commit("files")
    await watched.fetch()
    listed = await trees.entries(watched.mirrors, KEY, commit)
    read = await trees.files(watched.mirrors, KEY, listed)
    assert sorted(read) == ["binary", "empty", "link", "main.tf", "twin.tf"]
    assert read["binary"] == (repository.folder / "binary").read_bytes()
    assert (read["empty"], read["link"], read["twin.tf"]) == (b"", b"main.tf", read["main.tf"])
    assert [each.path for each in listed if each.mode == "160000"] == ["sub"]
    assert [each.path for each in listed if each.is_file] == ["binary", "empty", "main.tf", "twin.tf"]
    with pytest.raises(TooLarge, match="'binary' has 1,003 bytes"):
        await trees.files(watched.mirrors, KEY, listed, max_file_bytes=1000)
    with pytest.raises(TooLarge, match="at most 1,010"):
        await trees.files(watched.mirrors, KEY, listed, max_bytes=1010)
    assert await trees.files(watched.mirrors, KEY, []) == {}
    with pytest.raises(ValueError, match="not the id"):
        await trees.entries(watched.mirrors, KEY, "--help")
