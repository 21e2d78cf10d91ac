"""Merge results for tests of executors, made as a server makes them."""

import hashlib
import os
from pathlib import Path

import msgspec

from terracrew.protocol.spec import GitSource, MergeResult
from terracrew.server.git import merging
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.git.program import GitProgram
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.server.outgoing.destinations import Destinations
from tests.machine.git_https import GitHttps
from tests.machine.repositories import Repository

MAIN, PULL = "refs/heads/main", "refs/pull/1/head"


class MergeServer:
    """Merges the branch `change` of a repository into `main`."""

    def __init__(self, folder: Path, server: GitHttps, repository: Repository) -> None:
        self.url, self._repository = server.of(repository.name), repository
        self.mirrors = RepositoryMirrors(
            folder / "repositories",
            OutgoingClient(Destinations(hosts=frozenset(("localhost",)))),
            GitProgram(folder / "home-of-server", dict(os.environ) | server.environment),
        )

    async def merge(self) -> tuple[GitSource, bytes]:
        """Return the source of a job, and the pack that comes with it."""
        self._repository.git("update-ref", PULL, "change")
        commits = (await self.mirrors.fetch("rep_1", "org_1", self.url, None, [MAIN, PULL])).commits
        merged = await merging.merge(self.mirrors, "rep_1", commits[MAIN], commits[PULL])
        assert not merged.problem, merged.problem
        data = await merging.pack(self.mirrors, "rep_1", merged.base, merged.commit)
        return source_of(self.url, merged.commit, merged.base, merged.head, data), data


def source_of(url: str, commit: str, base: str, head: str, data: bytes) -> GitSource:
    result = MergeResult(base, head, MAIN, hashlib.sha256(data).hexdigest(), len(data), "arc_" + "0" * 32)
    return GitSource(url, commit=commit, merge=result)


def without_pack(source: GitSource) -> GitSource:
    return msgspec.structs.replace(source, merge=msgspec.UNSET)


def change(repository: Repository, **files: str) -> str:
    repository.git("checkout", "-q", "-B", "change", "main")
    commit = repository.commit("change", **files)
    repository.git("checkout", "-q", "main")
    return commit
