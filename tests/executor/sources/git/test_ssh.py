"""Repositories are fetched by ssh from a real sshd, whose host key must be known."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew.errors import EngineMissing, Forbidden, NotFound, Unavailable
from terracrew.protocol.spec import GitSource
from tests.e2e.system import free_port
from tests.executor.sources.git.conftest import Fetches
from tests.machine import git_ssh
from tests.machine.git_ssh import GitSsh
from tests.machine.repositories import MODULE, Repository

pytestmark = pytest.mark.feature("J5.git")


@pytest.fixture
def ssh(tmp_path: Path) -> Iterator[GitSsh]:
    with git_ssh.running(tmp_path / "ssh") as server:
        yield server


async def test_a_repository_is_fetched_with_the_key_or_the_agent_of_the_runners_user(
    ssh: GitSsh, repository: Repository, fetch: Fetches
) -> None:
    environment = dict(fetch.context.environment)
    repository.git("tag", "--annotate", "--message", "the first", "v1.0.0")
    commit, source = repository.git("rev-parse", "HEAD"), GitSource(ssh.of(repository.folder), version="~> 1.0")
    with_key = environment | {"GIT_SSH_COMMAND": ssh.command(f"-i {ssh.key}")}
    assert (await fetch(source, environment=with_key)).commit == commit
    assert fetch.files == {"main.tf": MODULE}
    second = repository.commit("second", main="# second\n")
    short = GitSource(f"{ssh.user}@127.0.0.1:{repository.folder}", branch="main")
    with git_ssh.agent(ssh.key) as socket:
        command = ssh.command(f"-p {ssh.port}", "-i /dev/null")
        with_agent = environment | {"GIT_SSH_COMMAND": command, "SSH_AUTH_SOCK": socket}
        assert (await fetch(short, environment=with_agent)).commit == second
    assert fetch.files == {"main.tf": "# second\n"}


async def test_an_unknown_or_changed_host_key_and_a_missing_key_are_explained(
    ssh: GitSsh, repository: Repository, fetch: Fetches
) -> None:
    environment, source = dict(fetch.context.environment), GitSource(ssh.of(repository.folder))
    with pytest.raises(Forbidden, match="the runner has no credentials for it that its server accepts"):
        await fetch(source, environment=environment | {"GIT_SSH_COMMAND": ssh.command("-i /dev/null")})
    with pytest.raises(Forbidden, match="the host key of its server is not known to the runner"):
        await fetch(source)  # as the runner's user, who has never seen this server
    ssh.known_hosts.write_text(ssh.known_hosts.read_text().replace("AAAA", "AAAB", 1).rstrip() + "\n")
    with pytest.raises(Forbidden, match="the host key of its server is not known to the runner"):
        await fetch(source, environment=environment | {"GIT_SSH_COMMAND": ssh.command(f"-i {ssh.key}")})


@pytest.mark.feature("J10.retry")
async def test_a_server_that_is_away_is_not_taken_for_one_that_refuses_the_credentials(
    ssh: GitSsh, repository: Repository, fetch: Fetches
) -> None:
    """Git adds "make sure you have the correct access rights" to every error of ssh, so nothing was tried again."""
    environment = dict(fetch.context.environment) | {"GIT_SSH_COMMAND": ssh.command(f"-i {ssh.key}")}
    for url in (f"ssh://git@127.0.0.1:{free_port()}/x", "ssh://git@nowhere.invalid/x"):
        with pytest.raises(Unavailable, match="its server cannot be reached"):
            await fetch(GitSource(url), environment=environment)
    with pytest.raises(NotFound, match="there is no repository at this address"):
        await fetch(GitSource(ssh.of(repository.folder / "nowhere")), environment=environment)


async def test_a_runner_without_ssh_says_so(ssh: GitSsh, repository: Repository, fetch: Fetches) -> None:
    environment = dict(fetch.context.environment) | {"GIT_SSH": "/nowhere/ssh"}
    with pytest.raises(EngineMissing, match="the runner has no program `ssh`"):
        await fetch(GitSource(ssh.of(repository.folder)), environment=environment)
