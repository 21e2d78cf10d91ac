"""What hangs, has no end, or would write elsewhere: each gets a clear error, and soon."""

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

from terracrew.errors import Conflict, Forbidden, Invalid, NotFound, TooLarge, Unavailable
from terracrew.executor.control import Control
from terracrew.executor.sources.contract import FetchLimits
from terracrew.executor.sources.git import program, tree
from terracrew.protocol.spec import GitSource
from terracrew.source_rules import archive
from tests.executor.sources.git.conftest import Fetches
from tests.machine.git_https import GitHttps
from tests.machine.repositories import MODULE, Repository

pytestmark = pytest.mark.feature("J5.git")


@pytest.mark.parametrize("hangs_on", ["info/refs", "git-upload-pack"])
async def test_a_repository_that_hangs_is_given_up(
    server: GitHttps, repository: Repository, fetch: Fetches, hangs_on: str
) -> None:
    server.hangs_on = hangs_on
    fetch.limits = FetchLimits(silence_seconds=1.0)
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"made no progress for 1 s|stopped sending"):
        await fetch(GitSource(server.of("network")))
    assert time.monotonic() - began < 30
    assert not list((fetch.context.cache / "git").glob(".index-*"))


async def test_a_job_that_is_canceled_during_a_fetch_ends_git(
    server: GitHttps, repository: Repository, fetch: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.hangs_on, control = "info/refs", Control()
    monkeypatch.setattr(program, "PROGRESS_SECONDS", 0.2)
    canceling = threading.Timer(0.8, control.request_cancel, ["interrupt"])
    canceling.start()
    with pytest.raises(Conflict, match="was stopped"):
        await fetch(GitSource(server.of("network")), control=control)
    assert fetch.said[0].startswith(f"Fetching {server.of('network')} takes 0 s so far")
    async with asyncio.timeout(10):  # the programs that git started were killed with it, and may take a moment to end
        while [pid for pid in os.listdir("/proc") if pid.isdigit() and server.url in command_line(pid)]:
            await asyncio.sleep(0.01)


def command_line(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


async def test_a_huge_repository_is_given_up(server: GitHttps, repository: Repository, fetch: Fetches) -> None:
    (repository.folder / "large").write_bytes(os.urandom(3 << 20))
    repository.commit("large")
    fetch.limits = FetchLimits(pack_bytes=1 << 20)
    with pytest.raises(TooLarge, match="wrote a file of more than 1,048,576 bytes"):
        await fetch(GitSource(server.of("network")))
    assert not [path for path in fetch.mirrors[0].rglob("*") if path.is_file() and path.stat().st_size > 1 << 20]


async def test_a_tree_that_repeats_itself_without_end_is_refused_before_it_is_written(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    """Ten trees of ten entries each, one below the other, are ten thousand million files and a few kilobytes to fetch."""
    entry = f"100644 blob {repository.blob(b'x')}"
    for _ in range(10):
        made = repository.git("mktree", given="".join(f"{entry}\tf{n}\n" for n in range(10)).encode())
        entry = f"040000 tree {made}"
    repository.entries(f"{entry}\tbomb")
    fetch.limits = FetchLimits(answer_bytes=4 << 20)
    with pytest.raises(TooLarge, match="gave an answer of more than"):
        await fetch(GitSource(server.of("network")))
    assert list(fetch.workspace.iterdir()) == []


async def test_files_that_are_large_only_when_unpacked_are_refused_before_they_are_written(
    server: GitHttps, repository: Repository, fetch: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree.TreeBudget.__init__, "__defaults__", (archive.MAX_ENTRIES, 8 << 20))
    with open(repository.folder / "zeros", "wb") as file:
        file.truncate(9 << 20)
    repository.commit("a bomb")
    with pytest.raises(TooLarge, match="has more than 100,000 files or 8 MiB"):
        await fetch(GitSource(server.of("network")))
    assert list(fetch.workspace.iterdir()) == []


@pytest.mark.parametrize("to", ["/etc/passwd", "../../outside", "../workspace-1x", "down/../../x"])
async def test_a_link_out_of_the_tree_is_refused(
    server: GitHttps, repository: Repository, fetch: Fetches, to: str
) -> None:
    (repository.folder / "down").mkdir()
    (repository.folder / "down" / "x.tf").touch()
    (repository.folder / "link").symlink_to(to)
    repository.commit("a link")
    with pytest.raises(Invalid, match=r"has the link 'link' to .*, which leads out of it"):
        await fetch(GitSource(server.of("network")))


async def test_a_link_through_another_link_out_of_the_tree_is_refused(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    (repository.folder / "a").symlink_to("b/../..")
    (repository.folder / "b").symlink_to(".")
    repository.commit("links")
    with pytest.raises(Invalid, match="which leads out of it"):
        await fetch(GitSource(server.of("network")))


@pytest.mark.parametrize("name", [".git", ".GIT", "..", "."])
async def test_a_path_that_would_write_elsewhere_is_refused(
    server: GitHttps, repository: Repository, fetch: Fetches, name: str
) -> None:
    below = repository.git("mktree", given=f"100644 blob {repository.blob(b'x')}\tconfig\n".encode())
    repository.entries(f"040000 tree {below}\t{name}")
    with pytest.raises(Invalid, match="has a path with"):
        await fetch(GitSource(server.of("network")))
    assert list(fetch.workspace.iterdir()) == []


async def test_names_that_differ_only_in_case_arrive_or_are_refused(
    server: GitHttps, repository: Repository, fetch: Fetches, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository.folder / "Main.tf").write_text("# another\n")
    repository.commit("both")
    await fetch(GitSource(server.of("network")))
    assert fetch.files == {"main.tf": MODULE, "Main.tf": "# another\n"}

    def folds_case(_: Path) -> bool:
        return True

    monkeypatch.setattr(tree, "folds_case", folds_case)
    with pytest.raises(Invalid, match=r"has 'main\.tf' twice, in upper and in lower case"):
        await fetch(GitSource(server.of("network")))


async def test_states_and_what_terracrewignore_names_are_left_out(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    for name in ("terraform.tfstate", ".terraform/providers/x", "docs/a.md", "docs/keep.tf"):
        (repository.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (repository.folder / name).write_text("x")
    (repository.folder / ".terracrewignore").write_text("*.md\n")
    repository.git("add", "--all", "--force")
    repository.commit("all")
    await fetch(GitSource(server.of("network")))
    assert fetch.files.keys() == {"main.tf", "docs/keep.tf", ".terracrewignore"}


async def test_the_errors_of_a_server_say_what_to_do(server: GitHttps, repository: Repository, fetch: Fetches) -> None:
    with pytest.raises(NotFound, match="there is no repository at this address"):
        await fetch(GitSource(server.of("nothing")))
    server.login = "ada:hunter2"
    with pytest.raises(Forbidden, match="the runner has no credentials for it that its server accepts"):
        await fetch(GitSource(server.of("network")))
    environment = {name: text for name, text in fetch.context.environment.items() if "SSL" not in name}
    with pytest.raises(Forbidden, match="the certificate of its server is not trusted"):
        await fetch(GitSource(server.of("network")), environment=environment)


async def test_only_what_may_be_over_soon_is_a_transient_error(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    with pytest.raises(Unavailable, match="its server cannot be reached") as away:
        await fetch(GitSource("https://localhost:1/x"))
    server.fails_with = 503
    with pytest.raises(Unavailable, match="its server is overloaded or has a fault") as failing:
        await fetch(GitSource(server.of("network")))
    server.fails_with = 403
    with pytest.raises(Forbidden) as refused:
        await fetch(GitSource(server.of("network")))
    server.fails_with = 0
    with pytest.raises(NotFound) as absent:
        await fetch(GitSource(server.of("network"), branch="nope"))
    assert [each.value.is_transient for each in (away, failing, refused, absent)] == [True, True, False, False]


async def test_the_credential_helper_of_the_runners_user_is_asked(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    server.login = "ada:hunter2"
    home = Path(fetch.context.environment["HOME"])
    (home / ".gitconfig").write_text(f"[credential]\n\thelper = store --file={home}/credentials\n")
    (home / "credentials").write_text(server.url.replace("https://", "https://ada:hunter2@") + "\n")
    await fetch(GitSource(server.of("network")))
    assert fetch.files == {"main.tf": MODULE}
    assert not any(
        "hunter2" in path.read_text(errors="replace") for path in fetch.mirrors[0].rglob("*") if path.is_file()
    )


async def test_variables_of_git_in_the_environment_do_not_change_what_git_does(
    server: GitHttps, repository: Repository, fetch: Fetches, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    hostile = {
        "GIT_DIR": "/nowhere",
        "GIT_SSL_NO_VERIFY": "1",
        "GIT_INDEX_FILE": "/nowhere",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": f"touch {marker}",
        "GIT_ALLOW_PROTOCOL": "ext:file",
        "GIT_TRACE": str(marker),
    }
    await fetch(GitSource(server.of("network")), environment=dict(fetch.context.environment) | hostile)
    assert fetch.files == {"main.tf": MODULE}
    assert not marker.exists()


async def test_a_runner_without_git_says_so(server: GitHttps, fetch: Fetches, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="this runner has no program `git`"):
        await fetch(GitSource(server.of("network")), environment={"PATH": str(tmp_path)})


def test_two_loops_can_fetch_at_once(server: GitHttps, repository: Repository, fetch: Fetches) -> None:
    """The fetch runs in a thread: the event loop of an executor answers the server meanwhile."""

    async def both() -> int:
        ticks = 0
        fetching = asyncio.create_task(fetch(GitSource(server.of("network"))))
        while not fetching.done():
            ticks += 1
            await asyncio.sleep(0.005)
        await fetching
        return ticks

    assert asyncio.run(both()) > 5
