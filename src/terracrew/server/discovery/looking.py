"""Looks at the repository of a rule with git: finds its connection, fetches the branch, and reads the folders of its newest commit."""

import asyncio
import hashlib

import msgspec

from terracrew.errors import Conflict, Invalid, NotFound, Unavailable
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import decide, finding, reads
from terracrew.server.discovery.finding import CommitFolders
from terracrew.server.discovery.model import DiscoveryRule, FolderPlan
from terracrew.server.discovery.tools import DiscoveryTools
from terracrew.server.forges import reads as forge_reads
from terracrew.server.forges import repository_store
from terracrew.server.forges.model import ForgeConnection, ForgeRepository
from terracrew.server.git.configured_commits import ConfiguredCommit


class NotKnownYet(Unavailable):
    """The forge has not yet been asked about the repository, which begins to be watched with the rule."""


class RuleRepository(msgspec.Struct, frozen=True):
    """The repository of a rule, and the connection that reads it."""

    connection: ForgeConnection
    repository: ForgeRepository


class RuleLook(msgspec.Struct, frozen=True):
    """What was found in the branch of a rule."""

    at: RuleRepository
    branch: str
    commit_id: str
    commit: ConfiguredCommit
    folders: CommitFolders
    meant: list[str]
    """The roots that the patterns of the rule mean."""


async def repository_of(tx: Tx, rule: DiscoveryRule) -> RuleRepository:
    """Return the repository of a rule. Raises Conflict or Unavailable in words if there is none yet."""
    found = await connection_of(tx, rule)
    known = await repository_store.named(tx, found[0].id, found[1])
    if known is None or not known.clone_url:
        raise NotKnownYet("the forge has not yet told the address of the repository")
    return RuleRepository(found[0], known)


async def connection_of(tx: Tx, rule: DiscoveryRule) -> tuple[ForgeConnection, str]:
    """Return the connection that serves a rule, and the name of the repository."""
    found = await forge_reads.repository_of(tx, rule.organization_id, rule.group, rule.url)
    if found is None:
        where = f"the group `{rule.group}` or one above it" if rule.group else "the organization"
        raise Conflict(
            f"no connection to a forge of {where} reads {rule.url}: connect the forge first (`terracrew forge create`; for a plain git "
            "repository with the kind `git`)",
            field="url",
        )
    return found


async def look(tools: DiscoveryTools, rule: DiscoveryRule, at: RuleRepository) -> RuleLook:
    """Fetch the branch of a rule, and find its folders. Raises ForgeAway, Unavailable, or another error in words."""
    branch, commit_id = await _fetch(tools, rule, at)
    commit = await tools.commits.read(tools.mirrors, at.repository.mirror_key, commit_id, rule.commit_id)
    folders = await asyncio.to_thread(finding.folders, commit, rule.engine)
    meant = await asyncio.to_thread(folders.meant, rule.include, rule.exclude)
    return RuleLook(at, branch, commit_id, commit, folders, meant)


async def begin_to_fetch(tools: DiscoveryTools, rule: DiscoveryRule, at: RuleRepository, seconds: float) -> None:
    """Fetch the branch of a rule, for somebody who waits for an answer. Raises Unavailable if it takes longer than that.

    The fetch goes on then, and whoever asks again waits for the same one.
    """
    key = at.repository.mirror_key, rule.branch
    fetch = tools.fetches.get(key)
    if fetch is None:
        fetch = tools.fetches[key] = asyncio.create_task(_fetch(tools, rule, at))
        fetch.add_done_callback(lambda ended: _forget(tools, key, ended))
    done, _ = await asyncio.wait([fetch], timeout=seconds)
    if not done:
        raise Unavailable("the repository is still being fetched: ask again in a moment", is_fetching=True)
    await fetch


def _forget(tools: DiscoveryTools, key: tuple[str, str], ended: "asyncio.Task[tuple[str, str]]") -> None:
    tools.fetches.pop(key, None)
    if not ended.cancelled():
        ended.exception()  # somebody who has stopped waiting does not need it


async def _fetch(tools: DiscoveryTools, rule: DiscoveryRule, at: RuleRepository) -> tuple[str, str]:
    """Fetch the branch of a rule; return its name and its newest commit."""
    repository = at.repository
    branch = rule.branch or repository.default_branch
    if not branch:
        raise Unavailable("the forge has not yet told the default branch of the repository")
    login = await tools.forges.git_login(at.connection, repository)
    ref = f"refs/heads/{branch}"
    fetched = await tools.mirrors.fetch(
        repository.mirror_key, at.connection.organization_id, repository.clone_url, login, [ref]
    )
    if why := fetched.failed.get(ref):
        raise Invalid(f"the branch {branch} cannot be fetched: {why}")
    commit_id = fetched.commits.get(ref)
    if commit_id is None:
        raise NotFound(f"the repository has no branch {branch}: nothing is made, and no module is marked")
    return branch, commit_id


async def planned(tx: Tx, rule: DiscoveryRule, found: RuleLook) -> FolderPlan:
    """Return what becomes of the folders of a look."""
    at = found.at
    known = await reads.known_folders(tx, rule, at.repository, found.branch, found.meant)
    return decide.plan(rule, found.meant, found.folders.configured, at.repository.name, known)


async def unwatched(tools: DiscoveryTools, rule: DiscoveryRule) -> RuleRepository:
    """Return the repository of a rule that may not exist yet. One that is not watched is asked for, and begins not to be watched."""
    connection, name = await tools.db.read(lambda tx: connection_of(tx, rule))
    known = await tools.db.read(lambda tx: repository_store.named(tx, connection.id, name))
    if known is not None and known.clone_url:
        return RuleRepository(connection, known)
    details = await tools.forges.of(connection).repository(name)
    now = tools.forges.now()
    key = hashlib.sha256(f"{connection.id} {details.clone_url}".encode()).hexdigest()[:32]
    made = ForgeRepository(
        id=f"preview-{key}",
        connection_id=connection.id,
        name=details.name,
        name_key=details.name.lower(),
        clone_url=details.clone_url,
        default_branch=details.default_branch,
        poll_at=now,
        comments_since=now,
        created_at=now,
    )
    return RuleRepository(connection, made)
