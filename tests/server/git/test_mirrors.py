"""The server fetches refs of a repository with their history, and survives what repositories, networks and kills do to it."""

import asyncio
import os
import subprocess
import time
from pathlib import Path

import pytest

from terracrew.errors import Forbidden, Invalid, NotFound, Unavailable
from terracrew.server.disk_reserve import DiskReserve, DiskSpace
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.git.program import GitProgram, GitProgramLimits
from terracrew.server.git.remotes import RemoteLogin
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.server.outgoing.destinations import Destinations
from tests.machine.git_https import GitHttps
from tests.machine.repositories import Repository
from tests.server.git.conftest import KEY, WatchedRepository

MAIN, PULL = "refs/heads/main", "refs/pull/12/head"


async def test_only_the_refs_that_were_asked_for_are_fetched_with_their_history(
    watched: WatchedRepository, repository: Repository
) -> None:
    first = repository.git("rev-parse", "HEAD")
    second = repository.commit("second", main="# 2\n")
    repository.git("checkout", "-q", "-b", "other")
    other = repository.commit("other", main="# 3\n")
    repository.git("update-ref", PULL, second)
    found = await watched.fetch(MAIN, PULL, "refs/heads/gone")
    assert (found.commits, found.missing, found.failed) == ({MAIN: second, PULL: second}, ["refs/heads/gone"], {})
    assert await watched.mirrors.has(KEY, [first, second, other, "x"]) == {first, second}


async def test_a_ref_that_has_not_moved_costs_one_question(
    watched: WatchedRepository, repository: Repository, server: GitHttps
) -> None:
    await watched.fetch()
    server.requests.clear()
    commit = (await watched.fetch()).commits[MAIN]
    assert not any("git-receive-pack" in each for each in server.requests)
    assert len(server.requests) == 2, "the advertisement and ls-refs"
    moved = repository.commit("moved", main="# moved\n")
    assert (await watched.fetch()).commits[MAIN] == moved != commit
    assert await watched.mirrors.tips("org_1", watched.url, None, [MAIN, PULL]) == {MAIN: moved}


async def test_a_deleted_branch_is_missing_and_may_become_a_folder_of_branches(
    watched: WatchedRepository, repository: Repository
) -> None:
    repository.git("branch", "a")
    assert "refs/heads/a" in (await watched.fetch("refs/heads/a")).commits
    repository.git("branch", "-D", "a")
    repository.git("branch", "a/b")
    found = await watched.fetch("refs/heads/a", "refs/heads/a/b")
    assert found.missing == ["refs/heads/a"]
    assert list(found.commits) == ["refs/heads/a/b"]


async def test_a_pull_request_that_git_refuses_does_not_block_the_others(
    watched: WatchedRepository, repository: Repository
) -> None:
    blob = repository.blob(b"x")
    good = repository.git("rev-parse", "HEAD")
    tree = repository.git("mktree", "--missing", given=f"100644 blob {blob}\t.git\n".encode())
    repository.git("update-ref", PULL, repository.git("commit-tree", "-m", "bad", tree))
    found = await watched.fetch(MAIN, PULL)
    assert found.commits == {MAIN: good}
    assert "hasDotgit" in found.failed[PULL]


async def test_a_login_reaches_the_server_and_no_message_or_command_line(
    watched: WatchedRepository, server: GitHttps, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[list[str], dict[str, str]]] = []
    begin = subprocess.Popen.__init__

    def note(self: "subprocess.Popen[bytes]", arguments: list[str], **options: object) -> None:
        started.append((arguments, dict(options["env"])))  # type: ignore[call-overload]
        begin(self, arguments, **options)  # type: ignore[call-overload]

    server.login = "bot:s3cret-token"
    with pytest.raises(Forbidden, match="does not accept the credential"):
        await watched.fetch()
    watched.login = RemoteLogin.basic("bot", "wrong-s3cret")
    with pytest.raises(Forbidden) as caught:
        await watched.fetch()
    assert "s3cret" not in str(caught.value)
    monkeypatch.setattr(subprocess.Popen, "__init__", note)
    watched.login = RemoteLogin.basic("bot", "s3cret-token")
    assert (await watched.fetch()).commits
    monkeypatch.undo()
    secrets = watched.login.secrets
    assert len(secrets) == 3
    assert not any(secret in part for arguments, _ in started for part in arguments for secret in secrets)
    assert sum(any(secret in text for text in env.values() for secret in secrets) for _, env in started) == 2
    assert "s3cret" not in repr(watched.login)
    for path in watched.mirror.rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes()


async def test_a_redirect_is_refused(watched: WatchedRepository, server: GitHttps) -> None:
    server.redirects_to = server.of("elsewhere")
    with pytest.raises(Invalid, match="it redirects: give its new address"):
        await watched.fetch()
    assert len(server.requests) == 1, "nobody asked for the other address"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("https://localhost:1/x", "not public"),
        ("https://127.0.0.1/x", "not public"),
        ("https://[::1]/x", "not public"),
        ("https://2130706433/x", "not public"),
        ("http://localhost/x", "not public"),
        ("ssh://git@localhost/x", "over https"),
        ("file:///etc", "not allowed"),
        ("https://user@localhost/x", "has a user"),
        ("https://user:word@localhost/x", "has a password"),
    ],
)
async def test_no_address_leads_into_the_network_of_the_server(tmp_path: Path, url: str, message: str) -> None:
    mirrors = RepositoryMirrors(tmp_path / "repositories", OutgoingClient())
    with pytest.raises(Invalid, match=message):
        await mirrors.fetch(KEY, "org_1", url, None, [MAIN])
    assert not mirrors.folder(KEY).exists()


async def test_git_connects_only_to_the_address_that_was_checked(watched: WatchedRepository, server: GitHttps) -> None:
    """The name does not exist, so only the pinned address leads to the server. Its certificate is for another name."""
    outgoing = OutgoingClient(Destinations(hosts=frozenset(("localhost",))))
    assert (await outgoing.checked_addresses("org_1", watched.url))[1] == int(server.url.rpartition(":")[2])
    environment = {
        "GIT_ALLOW_PROTOCOL": "https",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "http.curloptResolve",
        "GIT_CONFIG_VALUE_0": f"repositories.invalid:{server.url.rpartition(':')[2]}:127.0.0.1",
    }
    url = watched.url.replace("localhost", "repositories.invalid")
    with pytest.raises(Exception, match="certificate"):
        await watched.program.run("ls-remote", url, what="asking", environment=environment, is_local=False)


async def test_nothing_is_fetched_at_the_reserve_of_the_disk(tmp_path: Path, watched: WatchedRepository) -> None:
    full = DiskReserve([tmp_path], 100, lambda _: DiskSpace(0, 10**12))
    mirrors = RepositoryMirrors(tmp_path / "m", OutgoingClient(), watched.program, full)
    with pytest.raises(Unavailable, match="disk"):
        await mirrors.fetch(KEY, "org_1", watched.url, None, [MAIN])


@pytest.mark.parametrize("ref", ["main", "--upload-pack=x", "refs/heads/a b", "refs/heads/../x", "-refs/heads/x"])
async def test_a_ref_that_git_could_misunderstand_is_refused(watched: WatchedRepository, ref: str) -> None:
    with pytest.raises(Invalid):
        await watched.fetch(ref)


async def test_a_damaged_mirror_is_made_again(watched: WatchedRepository, repository: Repository) -> None:
    commit = (await watched.fetch()).commits[MAIN]
    for pack in (watched.mirror / "objects" / "pack").glob("*.pack"):
        pack.chmod(0o600)
        pack.write_bytes(b"PACK damaged")
    with pytest.raises(Unavailable, match="damaged"):
        await watched.mirrors.run(KEY, "cat-file", "-p", f"{commit}:main.tf", what="reading a file")
    assert not watched.mirror.exists()
    with pytest.raises(NotFound, match="must fetch it first"):
        await watched.mirrors.run(KEY, "cat-file", "-p", commit, what="reading a file")
    assert (await watched.fetch()).commits[MAIN] == commit
    (watched.mirror / "HEAD").write_text("")
    repository.commit("next", main="# next\n")
    assert (await watched.fetch()).commits[MAIN] != commit


async def test_what_a_killed_git_left_behind_blocks_nothing(watched: WatchedRepository, repository: Repository) -> None:
    await watched.fetch()
    for name in ("packed-refs.lock", "shallow.lock", "config.lock", "objects/pack/tmp_pack_x"):
        (watched.mirror / name).write_text("")
    commit = repository.commit("next", main="# next\n")
    assert (await watched.fetch()).commits[MAIN] == commit
    assert not list(watched.mirror.glob("*.lock"))


async def test_fetches_of_one_mirror_wait_for_each_other(watched: WatchedRepository) -> None:
    found = await asyncio.gather(*(watched.fetch() for _ in range(3)))
    assert found[0] == found[1] == found[2]


async def test_a_canceled_fetch_ends_its_git_and_leaves_a_usable_mirror(
    watched: WatchedRepository, server: GitHttps, repository: Repository
) -> None:
    repository.commit("large", data=os.urandom(200_000).hex())
    server.stops_after = 10_000
    fetching = asyncio.create_task(watched.fetch())
    assert await asyncio.to_thread(server.stopped.wait, 20)
    began = time.monotonic()
    fetching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await fetching
    assert time.monotonic() - began < 10
    server.stops_after = 0
    assert (await watched.fetch()).commits


async def test_mirrors_that_are_not_used_are_removed(watched: WatchedRepository) -> None:
    await watched.fetch()
    assert watched.mirrors.prune() == 0
    long_ago = time.time() - 31 * 86400
    os.utime(watched.mirror, (long_ago, long_ago))
    assert watched.mirrors.prune(kept=KEY) == 0
    assert watched.mirrors.prune() == 1
    assert not watched.mirror.exists()
    await watched.fetch()
    await watched.mirrors.remove(KEY)
    assert not watched.mirror.exists()


async def test_many_packs_become_one(
    watched: WatchedRepository, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terracrew.server.git.folders.MAX_PACKS", 2)
    commits = [repository.git("rev-parse", "HEAD")]
    for number in range(3):
        commits.append(repository.commit(f"{number}", main=f"# {number}\n"))
        await watched.fetch()
    assert len(list((watched.mirror / "objects" / "pack").glob("*.pack"))) == 1
    assert await watched.mirrors.has(KEY, commits) == set(commits)


async def test_git_is_ended_at_its_bounds(tmp_path: Path, watched: WatchedRepository, server: GitHttps) -> None:
    limits = GitProgramLimits(network_seconds=0.5, answer_bytes=10)
    program = GitProgram(tmp_path / "home", dict(os.environ) | server.environment, limits)
    with pytest.raises(Exception, match="more than 10 bytes"):
        await program.run("help", "-a", what="the help")
    server.hangs_on = "network"
    mirrors = RepositoryMirrors(tmp_path / "m", OutgoingClient(Destinations(hosts=frozenset(("localhost",)))), program)
    with pytest.raises(Unavailable, match="took longer"):
        await mirrors.fetch(KEY, "org_1", watched.url, None, [MAIN])


@pytest.mark.parametrize(
    ("printed", "message"), [("git version 2.34.1", "need git 2.38"), ("", "need git 2.38"), (None, "no program `git`")]
)
async def test_an_old_git_is_refused_in_words(tmp_path: Path, printed: str | None, message: str) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    if printed is not None:
        (programs / "git").write_text(f"#!/bin/sh\necho '{printed}'\n")
        (programs / "git").chmod(0o755)
    with pytest.raises(Unavailable, match=message):
        await GitProgram(tmp_path / "home", {"PATH": str(programs)}).run("version", what="x")


async def test_the_servers_own_environment_does_not_reach_git(tmp_path: Path) -> None:
    environment = dict(os.environ) | {"SECRET": "x", "GIT_DIR": "/x", "https_proxy": "http://127.0.0.1:1"}
    program = GitProgram(tmp_path / "home", environment)
    printed = (await program.run("-c", "alias.show-all=!env", "show-all", what="x")).output.decode()
    assert "SECRET" not in printed
    assert "https_proxy" not in printed
    assert "GIT_DIR=/x" not in printed
    assert f"HOME={tmp_path / 'home'}" in printed
