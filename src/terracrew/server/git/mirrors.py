"""The server's mirrors: a bare repository for each watched repository, with the whole history of the refs that were asked for.

Reading and merging need no lock, because a fetch only adds objects. One fetch changes a mirror at a time; git inherits its lock, so that
a server which is killed does not leave a git behind that writes into a mirror which the next one changes.
"""

import asyncio
import contextlib
import hashlib
import os
import re
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from terracrew.errors import Invalid, NotFound, TerracrewError, TooLarge, Unavailable
from terracrew.logging import get_logger
from terracrew.server.disk_reserve import DiskReserve
from terracrew.server.git import folders, remotes
from terracrew.server.git.program import GitOutput, GitProgram, GitProgramFailed
from terracrew.server.git.remotes import GitRemote, RemoteLogin
from terracrew.server.outgoing.client import OutgoingClient
from terracrew.source_rules import git as rules

MAX_REFS = 2_000
"""How many refs one fetch may ask for."""
MAX_LOCK_SECONDS = 900.0
_LOCK_POLL_SECONDS = 0.1
_UNREACHABLE = "14.days.ago"
"""How long objects are kept that no ref leads to any more, such as former commits of pull requests, and merge results."""
MAX_TAGS = 5_000
_TAGS = "refs/tags/"
_PEELED = "^{}"
"""What follows the name of an annotated tag in the line with its commit."""
_KEPT = "refs/terracrew/"
_KEY = re.compile(r"[A-Za-z0-9_-]{1,100}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
log = get_logger("terracrew.git")


class FetchedRefs(msgspec.Struct, frozen=True):
    """What a fetch has found."""

    commits: dict[str, str]
    """Each ref with its commit, which is in the mirror with its history."""
    missing: list[str]
    """The refs that the repository does not have (any more)."""
    failed: dict[str, str]
    """The refs that could not be fetched although others could, with the reason in words."""


class RepositoryMirrors:
    def __init__(
        self,
        directory: Path,
        outgoing: OutgoingClient,
        program: GitProgram | None = None,
        disk: DiskReserve | None = None,
    ) -> None:
        """`directory` belongs to this object alone: it also removes mirrors from it that are not used. Nothing is fetched at the
        reserve of the disk."""
        self._directory, self._outgoing, self._disk = directory, outgoing, disk
        self._program = program or GitProgram(directory / ".home")
        self._locks: dict[str, asyncio.Lock] = {}

    def folder(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} cannot be the key of a mirror")
        return self._directory / key

    async def fetch(
        self, key: str, organization_id: str, url: str, login: RemoteLogin | None, refs: Sequence[str]
    ) -> FetchedRefs:
        """Get the commits of these refs with their history. A ref that has not moved costs no transfer.

        `key` names the mirror; a repository of another organization, or with another address, must have another key. Raises an error
        in words if nothing could be fetched at all: Forbidden, NotFound and Invalid need a person, Unavailable may pass by itself.
        """
        check_refs(refs)
        if self._disk is not None:
            self._disk.require()
        remote = await remotes.find(self._outgoing, organization_id, url, login)
        async with self._changing(key) as lock:
            try:
                try:
                    return await self._fetch(key, remote, refs, lock)
                except GitProgramFailed as error:
                    is_of_remote = remotes.is_explained(error) or remotes.is_refused_content(error)
                    if is_of_remote or await self.is_intact(key):
                        raise
                log.warning("the mirror of a repository is damaged and is made again", key=key, url=url)
                await asyncio.to_thread(folders.remove, self.folder(key))
                return await self._fetch(key, remote, refs, lock)
            except GitProgramFailed as error:
                raise remotes.explained(error, remote) from None
            finally:
                await asyncio.to_thread(self.prune, key)

    async def tips(
        self, organization_id: str, url: str, login: RemoteLogin | None, refs: Sequence[str]
    ) -> dict[str, str]:
        """Return the commits of these refs as the repository has them now, without a fetch. A ref that it does not have is left out."""
        check_refs(refs)
        remote = await remotes.find(self._outgoing, organization_id, url, login)
        try:
            return await self._tips(remote, refs)
        except GitProgramFailed as error:
            raise remotes.explained(error, remote) from None

    async def tags(self, organization_id: str, url: str, login: RemoteLogin | None, prefix: str = "") -> dict[str, str]:
        """Return the tags of a repository that begin with a text, each with its commit, without a fetch. Raises TooLarge for too many."""
        remote = await remotes.find(self._outgoing, organization_id, url, login)
        try:
            listed = await self._program.run(
                "ls-remote",
                "--quiet",
                "--tags",
                "--",
                remote.url,
                what=f"asking {remote.url} for its tags",
                environment=dict(remote.environment),
                is_local=False,
            )
        except GitProgramFailed as error:
            raise remotes.explained(error, remote) from None
        found: dict[str, str] = {}
        for line in listed.output.decode(errors="replace").split("\n"):
            commit, _, ref = line.partition("\t")
            name = ref.removeprefix(_TAGS).removesuffix(_PEELED)
            if ref.startswith(_TAGS) and name.startswith(prefix) and _COMMIT.fullmatch(commit):
                found[name] = commit  # the line of the commit follows that of the object of an annotated tag
        if len(found) > MAX_TAGS:
            raise TooLarge(f"the repository has more than {MAX_TAGS:,} tags that begin with {prefix!r}")
        return found

    async def run(
        self,
        key: str,
        *arguments: str,
        what: str,
        given: bytes = b"",
        environment: dict[str, str] | None = None,
        max_bytes: int | None = None,
        codes: Sequence[int] = (0,),
    ) -> GitOutput:
        """Run a git command in a mirror that does not use the network.

        Raises NotFound if there is no mirror, and Unavailable if it turned out to be damaged, so that it was removed: a fetch helps.
        """
        folder = self.folder(key)
        if not (folder / "HEAD").is_file():
            raise NotFound(f"this server has no copy of the repository {key} yet: it must fetch it first")
        with contextlib.suppress(OSError):
            os.utime(folder)  # mark it as used, so that others are removed first
        try:
            return await self._program.run(
                f"--git-dir={folder}",
                *arguments,
                what=what,
                given=given,
                environment=environment,
                max_bytes=max_bytes,
                codes=codes,
            )
        except GitProgramFailed:
            if not await self.is_intact(key):
                await self._remove_damaged(key)
                raise Unavailable(
                    f"{what} failed, because this server's copy of the repository was damaged; it was removed and is fetched again"
                ) from None
            raise

    async def has(self, key: str, commits: Iterable[str]) -> set[str]:
        """Return those of these commits that a mirror has."""
        wanted = [each for each in commits if _COMMIT.fullmatch(each)]
        if not wanted or not (self.folder(key) / "HEAD").is_file():
            return set()
        given = "".join(f"{each}^{{commit}}\n" for each in wanted).encode()
        listed = (await self.run(key, "cat-file", "--batch-check", what="looking for commits", given=given)).output
        return {
            each
            for each, line in zip(wanted, listed.split(b"\n"), strict=False)
            if line.split(b" ")[1:2] == [b"commit"]
        }

    async def is_intact(self, key: str) -> bool:
        """Return whether everything is there that the refs of a mirror need. This reads all of it, which takes a while."""
        folder = self.folder(key)
        if not (folder / "HEAD").is_file():
            return False
        try:
            await self._program.run(
                f"--git-dir={folder}",
                "fsck",
                "--connectivity-only",
                "--no-dangling",
                "--no-progress",
                what="checking the copy of a repository",
            )
        except GitProgramFailed:
            return False
        return True

    async def _remove_damaged(self, key: str) -> None:
        async with self._changing(key):
            if not await self.is_intact(key):  # a fetch may have made it again in the meantime
                await asyncio.to_thread(folders.remove, self.folder(key))

    async def remove(self, key: str) -> None:
        """Remove a mirror, for example because nobody watches the repository any more."""
        async with self._changing(key):
            await asyncio.to_thread(folders.remove, self.folder(key))
            folders.lock_of(self.folder(key)).unlink(missing_ok=True)

    def prune(self, kept: str = "") -> int:
        """Remove mirrors that were not used for 30 days, or do not fit. Returns how many were removed."""
        return folders.prune(self._directory, kept)

    @asynccontextmanager
    async def _changing(self, key: str) -> AsyncGenerator[int]:
        """Hold the lock of a mirror, in this process and on the disk."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        async with self._locks.setdefault(key, asyncio.Lock()):
            path, until = folders.lock_of(self.folder(key)), time.monotonic() + MAX_LOCK_SECONDS
            while (descriptor := folders.take(path)) is None:
                if time.monotonic() > until:
                    raise Unavailable("another process of this server still changes its copy of the repository")
                await asyncio.sleep(_LOCK_POLL_SECONDS)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    async def _fetch(self, key: str, remote: GitRemote, refs: Sequence[str], lock: int) -> FetchedRefs:
        await self._prepare(key)
        found = await self._tips(remote, refs)
        missing = [ref for ref in refs if ref not in found]
        if missing:
            await self._forget(key, missing)
        here = await self._here(key)
        new = [ref for ref, commit in found.items() if here.get(_name_of(ref)) != commit]
        failed = await self._get_all(key, remote, new, lock)
        here = await self._here(key)
        await self._combine_packs(key)
        commits = {ref: here[_name_of(ref)] for ref in found if ref not in failed and _name_of(ref) in here}
        gone = [ref for ref in found if ref not in failed and ref not in commits]
        return FetchedRefs(commits, [*missing, *gone], failed)

    async def _get_all(self, key: str, remote: GitRemote, refs: list[str], lock: int) -> dict[str, str]:
        """Fetch refs with one request. If that fails, fetch them one by one: a stranger's pull request must not block the others.

        Returns the reasons for those that failed. Raises the error if all of them failed.
        """
        if not refs:
            return {}
        try:
            await self._get(key, remote, refs, lock)
            return {}
        except (GitProgramFailed, TooLarge) as error:
            if isinstance(error, GitProgramFailed) and remotes.is_explained(error):
                raise
            if len(refs) == 1 and _is_gone(error):
                return {}
            if len(refs) == 1:
                raise
            last: TerracrewError = error
        failed: dict[str, str] = {}
        for ref in refs:
            try:
                await self._get(key, remote, [ref], lock)
            except (GitProgramFailed, TooLarge) as error:
                if isinstance(error, GitProgramFailed) and remotes.is_explained(error):
                    raise
                if not _is_gone(error):
                    failed[ref], last = remote.without_secrets(error.message), error
        if len(failed) == len(refs):
            raise last
        return failed

    async def _get(self, key: str, remote: GitRemote, refs: Sequence[str], lock: int) -> None:
        await self._program.run(
            f"--git-dir={self.folder(key)}",
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            "--",
            remote.url,
            *(f"+{ref}:{_name_of(ref)}" for ref in refs),
            what=f"fetching {remote.url}",
            environment=dict(remote.environment),
            is_local=False,
            inherited=(lock,),
        )

    async def _tips(self, remote: GitRemote, refs: Sequence[str]) -> dict[str, str]:
        answer = await self._program.run(
            "ls-remote",
            "--quiet",
            "--",
            remote.url,
            *refs,
            what=f"asking {remote.url} for its refs",
            environment=dict(remote.environment),
            is_local=False,
        )
        wanted, found = set(refs), dict[str, str]()
        for line in answer.output.decode(errors="replace").split("\n"):
            commit, _, ref = line.partition("\t")
            if ref in wanted:
                if not _COMMIT.fullmatch(commit):
                    raise Invalid(
                        f"the repository {remote.url} gave {commit[:100]!r} for {ref}, which is not the id of a commit"
                    )
                found[ref] = commit
        return found

    async def _here(self, key: str) -> dict[str, str]:
        listed = await self._in(key, "for-each-ref", "--format=%(objectname) %(refname)", _KEPT)
        lines = (line.partition(" ") for line in listed.decode().splitlines())
        return {ref: commit for commit, _, ref in lines}

    async def _forget(self, key: str, refs: Sequence[str]) -> None:
        given = "".join(f"delete {_name_of(ref)}\n" for ref in refs).encode()
        await self._in(key, "update-ref", "--stdin", given=given)

    async def _prepare(self, key: str) -> None:
        folder = self.folder(key)
        if not (folder / "HEAD").is_file():
            await asyncio.to_thread(folders.remove, folder)
            await self._program.run("init", "--quiet", "--bare", "--template=", str(folder), what="making a repository")
        folders.remove_left_behind(folder)
        os.utime(folder)

    async def _combine_packs(self, key: str) -> None:
        if not await asyncio.to_thread(folders.has_many_files, self.folder(key)):
            return
        with contextlib.suppress(GitProgramFailed, Unavailable, TooLarge):  # the next fetch tries again
            await self._in(key, "repack", "-A", "-d", "-q", f"--unpack-unreachable={_UNREACHABLE}")
            await self._in(key, "prune", f"--expire={_UNREACHABLE}")

    async def _in(self, key: str, *arguments: str, given: bytes = b"") -> bytes:
        what = f"git {arguments[0]} in the copy of a repository"
        return (await self._program.run(f"--git-dir={self.folder(key)}", *arguments, what=what, given=given)).output


def _name_of(ref: str) -> str:
    """Return the ref of a mirror that stands for a ref of the repository. A hash keeps `a` and a later `a/b` apart."""
    return _KEPT + hashlib.sha256(ref.encode()).hexdigest()[:32]


def check_refs(refs: Sequence[str]) -> None:
    if len(refs) > MAX_REFS:
        raise ValueError(f"{len(refs)} refs are more than one fetch may ask for")
    for ref in refs:
        if problem := rules.ref_problem(ref) or (
            "" if ref.startswith("refs/") else f"{ref[:100]!r} is not a whole ref"
        ):
            raise Invalid(problem)


def _is_gone(error: TerracrewError) -> bool:
    """Return whether a ref was deleted between the question for the refs and the fetch."""
    return "couldn't find remote ref" in error.message.lower()
