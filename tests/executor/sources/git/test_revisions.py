"""Every way to name a revision leads to the right commit of a real repository."""

from typing import Any

import pytest

from terracrew.errors import NotFound
from terracrew.protocol.spec import GitSource, KnownRevision
from tests.executor.sources.git.conftest import Fetches
from tests.machine.git_https import GitHttps
from tests.machine.repositories import MODULE, Repository

pytestmark = pytest.mark.feature("J5.git")


async def test_each_kind_of_revision_leads_to_its_commit(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    url = server.of("network")
    first = repository.git("rev-parse", "HEAD")
    repository.git("tag", "v1.0.0")
    repository.git("branch", "old")
    second = repository.commit("second", more="# more\n")
    repository.git("tag", "--annotate", "--message", "the second", "v1.1.0")
    assert (await fetch(GitSource(url))).commit == second
    assert fetch.files == {"main.tf": MODULE, "more.tf": "# more\n"}
    resolved = await fetch(GitSource(url, branch="old"))
    assert (resolved.commit, resolved.revision, resolved.digest) == (first, "branch old", f"git:{first}")
    assert resolved.description == f"git {url}, branch old, commit {first[:12]}"
    assert fetch.files == {"main.tf": MODULE}
    assert (await fetch(GitSource(url, tag="v1.0.0"))).commit == first
    annotated = await fetch(GitSource(url, tag="v1.1.0"))
    assert (annotated.commit, annotated.revision) == (second, "tag v1.1.0")
    assert (await fetch(GitSource(url, commit=first))).commit == first
    assert len(fetch.mirrors) == 1


async def test_a_branch_that_looks_like_a_tag_is_a_branch(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    url, first = server.of("network"), repository.git("rev-parse", "HEAD")
    repository.git("tag", "v1.0.0")
    repository.git("update-ref", "refs/heads/refs/tags/v1.0.0", "HEAD")
    second = repository.commit("second")
    repository.git("branch", "v1.0.0")
    assert (await fetch(GitSource(url, branch="v1.0.0"))).commit == second
    assert (await fetch(GitSource(url, tag="v1.0.0"))).commit == first
    assert (await fetch(GitSource(url, version="1.0.0"))).commit == first
    assert (await fetch(GitSource(url, branch="refs/tags/v1.0.0"))).commit == first


async def test_a_range_means_the_highest_tag_in_it(server: GitHttps, repository: Repository, fetch: Fetches) -> None:
    url = server.of("network")
    commits: dict[str, str] = {}
    for tag in ("v1.9.0", "1.10.0", "v2.0.0", "v1.11.0-rc.1", "latest", "nightly-5"):
        commits[tag] = repository.commit(tag)
        repository.git("tag", tag)
    resolved = await fetch(GitSource(url, version="~> 1.2"))
    assert (resolved.commit, resolved.revision) == (commits["1.10.0"], "tag 1.10.0")
    assert (await fetch(GitSource(url, version="= 1.11.0-rc.1"))).commit == commits["v1.11.0-rc.1"]
    with pytest.raises(NotFound, match=r"has no tag in the range '~> 3.0'; its highest versions are .*v2\.0\.0"):
        await fetch(GitSource(url, version="~> 3.0"))


@pytest.mark.parametrize("source", [{"branch": "nope"}, {"tag": "nope"}, {"commit": "a" * 40}, {"branch": "v1.0.0"}])
async def test_a_revision_that_does_not_exist_is_named(
    server: GitHttps, repository: Repository, fetch: Fetches, source: dict[str, Any]
) -> None:
    repository.git("tag", "v1.0.0")
    ((kind, name),) = source.items()
    with pytest.raises(NotFound, match=f"has no {kind} {name}"):
        await fetch(GitSource(server.of("network"), **source))


async def test_a_server_that_does_not_give_out_commits_by_their_ids_is_asked_for_refs_and_then_for_everything(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    server.is_old, first = True, repository.git("rev-parse", "HEAD")
    tagged = repository.commit("second", main="# second\n")
    repository.git("tag", "--annotate", "--message", "the second", "v1.0.0")
    repository.commit("third", main="# third\n")
    assert (await fetch(GitSource(server.of("network"), tag="v1.0.0"))).commit == tagged
    assert fetch.files == {"main.tf": "# second\n"}
    assert (await fetch(GitSource(server.of("network"), commit=first))).commit == first
    assert fetch.files == {"main.tf": MODULE}
    with pytest.raises(NotFound, match=r"has no commit a{40}"):
        await fetch(GitSource(server.of("network"), commit="a" * 40))


async def test_an_empty_repository_has_no_commits(server: GitHttps, fetch: Fetches) -> None:
    Repository(server.root / "empty")
    with pytest.raises(NotFound, match="has no commits yet"):
        await fetch(GitSource(server.of("empty")))


@pytest.mark.feature("J5.once")
async def test_a_later_attempt_gets_the_commit_of_the_first(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    source = GitSource(server.of("network"), branch="main")
    first = await fetch(source)
    repository.commit("second", main="# other\n")
    again = await fetch(source, digest=first.digest, revision=first.revision)
    assert again == first
    assert fetch.files == {"main.tf": MODULE}


@pytest.mark.feature("J5.once")
async def test_a_later_attempt_on_another_runner_gets_the_commit_of_the_first(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    first = repository.git("rev-parse", "HEAD")
    repository.commit("second", main="# other\n")
    again = await fetch(GitSource(server.of("network"), branch="main"), digest=f"git:{first}", revision="branch main")
    assert (again.commit, again.revision) == (first, "branch main")
    assert fetch.files == {"main.tf": MODULE}


async def test_a_tag_that_has_moved_is_reported_with_the_job_that_had_the_other_commit(
    server: GitHttps, repository: Repository, fetch: Fetches
) -> None:
    source, first = GitSource(server.of("network"), tag="v1.0.0"), repository.git("rev-parse", "HEAD")
    repository.git("tag", "v1.0.0")
    known = [KnownRevision("branch main", "b" * 40, 8), KnownRevision("tag v1.0.0", first, 7)]
    assert (await fetch(source, known_revisions=known)).moved_from == ""
    second = repository.commit("second")
    repository.git("tag", "--force", "v1.0.0")
    resolved = await fetch(source, known_revisions=known)
    assert (resolved.commit, resolved.moved_from) == (second, first)
    assert f"the tag v1.0.0 has moved: in job 7 it was the commit {first}, and now it is {second}" in fetch.said[-1]
    assert (await fetch(GitSource(server.of("network"), branch="main"), known_revisions=known)).moved_from == ""
