"""What unpacks archives and fetches repositories can reach on the machine of its runner, and what it cannot."""

import io
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.errors import Forbidden
from terracrew.executor.isolation import landlock
from terracrew.executor.isolation.source_rules import SourceConfinement
from terracrew.executor.sources.git import operator_paths
from terracrew.executor.sources.registry import zip_files
from terracrew.protocol.spec import GitSource
from terracrew.protocol.start import IsolationSettings
from terracrew.source_rules import archive
from tests.executor.sources.git.conftest import Fetches
from tests.machine import git_https
from tests.machine.git_https import GitHttps
from tests.machine.repositories import MODULE, Repository

needs_landlock = pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
pytestmark = [needs_landlock, pytest.mark.feature("X4.isolation")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitHttps]:
    with git_https.running(tmp_path / "served") as server:
        Repository(server.root / "network").commit("first", main=MODULE)
        yield server


@pytest.fixture
def fetch(tmp_path: Path, server: GitHttps) -> Fetches:
    return Fetches(tmp_path, server.environment)


def program(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


@pytest.fixture
def confinement() -> SourceConfinement:
    return SourceConfinement(IsolationSettings(), {})


def test_what_unpacks_opens_nothing_but_its_target(confinement: SourceConfinement, tmp_path: Path) -> None:
    target, secret = tmp_path / "target", tmp_path / "master.key"
    target.mkdir()
    secret.write_text("the-secret-itself")
    (target / "way").symlink_to(tmp_path)

    def work() -> None:
        (target / "file").write_text("x")
        for attempt in (
            secret.read_text,
            lambda: secret.write_text("x"),
            lambda: (target / "way" / "new").write_text("x"),
            lambda: (tmp_path / "folder").mkdir(),
            lambda: (tmp_path / "link").symlink_to("target"),
            lambda: os.listdir("/etc"),
        ):
            with pytest.raises(PermissionError):
                attempt()

    confinement.within(work, target)
    assert sorted(os.listdir(tmp_path)) == ["master.key", "target"]
    assert sorted(os.listdir(target)) == ["file", "way"]
    assert secret.read_text() == "the-secret-itself", "the process itself keeps its rights"


def test_archives_of_both_formats_arrive(confinement: SourceConfinement, tmp_path: Path) -> None:
    source, from_tar, from_zip = tmp_path / "source", tmp_path / "tar", tmp_path / "zip"
    for folder in (source / "sub", from_tar, from_zip):
        folder.mkdir(parents=True)
    (source / "sub" / "main.tf").write_text("x")
    (source / "link").symlink_to("sub/main.tf")
    packed = archive.pack(source)
    contents = confinement.within(lambda: archive.extract(io.BytesIO(packed), from_tar), from_tar)
    assert contents.entries == 3
    assert (from_tar / "link").read_text() == "x"
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as made:
        made.writestr("caf_.tf", "x")
    old = zipped.getvalue().replace(b"caf_", b"caf\x82")  # in the encoding that names had before Unicode
    confinement.within(lambda: zip_files.extract(old, from_zip), from_zip)
    assert os.listdir(from_zip) == ["café.tf"]


def test_without_isolation_nothing_is_confined(tmp_path: Path) -> None:
    confinement = SourceConfinement(IsolationSettings("none"), {})
    confinement.within((tmp_path / "folder").mkdir, tmp_path / "elsewhere")
    assert confinement.start(os.getpid, writable=[], readable=[]) == os.getpid()


async def test_a_program_that_git_runs_neither_reads_what_the_runner_keeps_nor_changes_what_is_outside(
    server: GitHttps, fetch: Fetches, tmp_path: Path
) -> None:
    """A credential helper in a `.gitconfig` that a module had placed read `master.key` and the credentials of all attempts."""
    server.login = "ada:right"
    private, home, other = tmp_path / "private", tmp_path / "home", tmp_path / "attempts" / "other"
    for folder in (private, other):
        folder.mkdir(parents=True)
    for secret in (private / "master.key", other / "attempt.json"):
        secret.write_text("the-secret-itself")
    ran = tmp_path / "cache" / "git" / "ran"
    helper = program(
        home / ".local" / "bin" / "helper",
        f"cat {private}/master.key {other}/attempt.json > {ran}",
        f"touch {home}/.bashrc {home}/.ssh-new {private}/new {other}/new {tmp_path}/new",
        f"ln -s x {home}/link; mkdir {home}/folder; echo >> {home}/.gitconfig",
        "echo username=ada; echo password=right",
    )
    configuration = f"[credential]\n\thelper = {helper}\n"
    (home / ".gitconfig").write_text(configuration)
    await fetch(GitSource(server.of("network")))
    assert fetch.files == {"main.tf": MODULE}, "the helper of the operator was used"
    assert ran.read_text() == "", "it ran, and could read nothing"
    assert sorted(os.listdir(home)) == [".gitconfig", ".local"]
    assert (home / ".gitconfig").read_text() == configuration
    assert (os.listdir(private), os.listdir(other)) == (["master.key"], ["attempt.json"])
    assert not (tmp_path / "new").exists()


async def test_what_the_operators_configuration_of_git_names_is_read(
    server: GitHttps, fetch: Fetches, tmp_path: Path
) -> None:
    server.login = "ada:right"
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "ca.pem").write_bytes(server.ca.read_bytes())
    store = elsewhere / "store"
    store.write_text(server.url.replace("://", "://ada:right@") + "\n")
    (home / ".gitconfig").write_text("[include]\n\tpath = more.config\n")
    (home / "more.config").write_text(
        f'[http]\n\tsslCAInfo = "{elsewhere}/ca.pem"\n[credential]\n\thelper = store --file {store}\n'
    )
    environment = {name: text for name, text in fetch.context.environment.items() if name not in server.environment}
    await fetch(GitSource(server.of("network")), environment=environment)
    assert fetch.files == {"main.tf": MODULE}


async def test_an_error_names_the_settings_that_let_git_reach_more(
    server: GitHttps, fetch: Fetches, tmp_path: Path
) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "more.config").write_text("[user]\n\tname = x\n")
    (tmp_path / "home" / ".gitconfig").write_text(f"[include]\n\tpath = {tmp_path}/private/more.config\n")
    with pytest.raises(Forbidden, match=r"executor\.read_paths and executor\.write_paths .*more\.config"):
        await fetch(GitSource(server.of("network")))


def test_the_paths_of_a_configuration_are_found_without_running_git(tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text(
        '[include]\n path = ~/one\n[include]\n path = two\n[url "https://host/"]\n insteadOf = git@host:\n'
    )
    (tmp_path / "one").write_text('[credential]\n helper = "!/opt/x/helper --file=~/.keys/file"\n')
    (tmp_path / "two").write_text("[include]\n path = .gitconfig\n[core]\n sshCommand = ssh -i /srv/key\n")
    found = operator_paths.find(
        "/usr/bin/git", {"HOME": str(tmp_path), "GIT_SSH_COMMAND": "ssh -i ~/k -oUserKnownHostsFile=/srv/hosts"}
    )
    expected = {f"{tmp_path}/{name}" for name in (".gitconfig", "one", "two", ".keys/file", "k", ".config/git")}
    assert expected | {"/opt/x/helper", "/srv/key", "/srv/hosts", "/usr/libexec"} <= set(found)
    assert not any("host/" in path for path in found)
