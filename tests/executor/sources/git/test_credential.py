"""A secret of the module is what git authenticates with. Nobody else gets it, and nothing of it stays behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.errors import Forbidden, Invalid
from terracrew.protocol.spec import GitSource, JobType
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.sources.git.conftest import Fetches
from tests.machine import git_ssh
from tests.machine.git_https import GitHttps
from tests.machine.git_ssh import GitSsh
from tests.machine.repositories import MODULE, Repository

pytestmark = pytest.mark.feature("J5.git")
TOKEN = "t0ken with $trange: @characters/"
SHOWS_ENVIRONMENT = """
resource "terraform_data" "x" {
  provisioner "local-exec" { command = "echo [$DEPLOY_TOKEN]" }
}
"""


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[GitSsh]:
    with git_ssh.running(tmp_path / "ssh") as server:
        yield server


async def test_a_token_is_used_for_its_host_and_other_credentials_get_nothing_of_what_it_fetched(
    server: GitHttps, repository: Repository, fetch: Fetches, tmp_path: Path
) -> None:
    server.login = f"git:{TOKEN}"
    (scratch := tmp_path / "scratch").mkdir()
    source = GitSource(server.of("network"), credential="DEPLOY_TOKEN")
    given = {"variables": {"DEPLOY_TOKEN": TOKEN + "\n", "OTHER": "wrong"}, "scratch": scratch}
    resolved = await fetch(source, **given)
    assert fetch.files == {"main.tf": MODULE}
    assert list(scratch.iterdir()) == [], "the files with the token are removed"
    pinned = GitSource(server.of("network"), commit=resolved.commit, credential="OTHER")
    with pytest.raises(Forbidden, match="its server does not accept the credential of the source"):
        await fetch(pinned, **given)
    with pytest.raises(Forbidden, match="the runner has no credentials"):
        await fetch(GitSource(server.of("network"), commit=resolved.commit), **given)
    with pytest.raises(Invalid, match="the module has no environment variable ABSENT with a credential in it"):
        await fetch(GitSource(server.of("network"), credential="ABSENT"), **given)
    kept = [path for path in fetch.context.cache.rglob("*") if path.is_file()]
    assert not any(b"t0ken" in path.read_bytes() for path in kept)


async def test_a_token_does_not_go_to_the_host_of_a_submodule(
    server: GitHttps, repository: Repository, fetch: Fetches, tmp_path: Path
) -> None:
    server.login = f"git:{TOKEN}"
    elsewhere = server.url.replace("localhost", "127.0.0.1")
    (repository.folder / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = x\n\turl = {elsewhere}/network\n')
    repository.git("add", ".gitmodules")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{repository.git('rev-parse', 'HEAD')},x")
    repository.git("commit", "--quiet", "--message", "a submodule")
    source = GitSource(server.of("network"), credential="DEPLOY_TOKEN")
    with pytest.raises(Forbidden, match=r"the repository https://127\.0\.0\.1:.* does not accept the credential"):
        await fetch(source, variables={"DEPLOY_TOKEN": TOKEN}, scratch=tmp_path)


async def test_a_private_key_is_used_with_the_host_keys_that_are_pinned(
    ssh: GitSsh, repository: Repository, fetch: Fetches, tmp_path: Path
) -> None:
    (scratch := tmp_path / "scratch").mkdir()
    given = {"variables": {"DEPLOY_KEY": ssh.key.read_text().replace("\n", "\r\n")}, "scratch": scratch}
    pinned = ssh.known_hosts.read_text()
    source = GitSource(ssh.of(repository.folder), credential="DEPLOY_KEY", known_hosts=pinned)
    await fetch(source, **given)
    assert fetch.files == {"main.tf": MODULE}
    assert list(scratch.iterdir()) == []
    kind, key = (ssh.folder / "user.pub").read_text().split()[:2]
    other = GitSource(source.url, credential="DEPLOY_KEY", known_hosts=f"[127.0.0.1]:{ssh.port} {kind} {key}\n")
    repository.commit("second")
    with pytest.raises(Forbidden, match="the host key of its server is not among those that the source has"):
        await fetch(other, **given)


async def test_a_credential_that_is_refused_is_not_taken_for_those_of_the_runner(
    server: GitHttps, repository: Repository, fetch: Fetches, tmp_path: Path
) -> None:
    """The error told people to add credentials to the runner, which are not used for such a source."""
    server.login = f"git:{TOKEN}"
    (scratch := tmp_path / "scratch").mkdir()
    source = GitSource(server.of(repository.name), credential="DEPLOY_TOKEN")
    with pytest.raises(Forbidden, match="its server does not accept the credential of the source"):
        await fetch(source, variables={"DEPLOY_TOKEN": "another-token"}, scratch=scratch)
    with pytest.raises(Forbidden, match="the runner has no credentials for it that its server accepts"):
        await fetch(GitSource(source.url))


@pytest.mark.engine
async def test_the_engine_does_not_get_the_credential_of_the_source(
    hub: FakeExecutorHub, executors: ExecutorProcesses, server: GitHttps, repository: Repository
) -> None:
    server.login = f"git:{TOKEN}"
    repository.commit("shows", main=SHOWS_ENVIRONMENT)
    executors.environment |= server.environment
    source = GitSource(server.of("network"), credential="DEPLOY_TOKEN")
    executor = await executors.run(executors.spec(JobType.APPLY, source, environment={"DEPLOY_TOKEN": TOKEN}))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert b"[]" in hub.log(step="apply")
