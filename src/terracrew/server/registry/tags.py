"""Makes versions of the tags of a repository.

Invariant: each version is made once, of the commit that its tag named then. A tag that moves is shown and changes no version. The row of
the module is held while a version is written, and a look that began before somebody changed the module writes nothing.
"""

import asyncio
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from terracrew import ids
from terracrew.api.registry import MAX_VERSION_CHARACTERS, RefusedTag
from terracrew.errors import Conflict, Invalid, NotFound, TerracrewError, Unavailable
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import addresses, repository_store
from terracrew.server.forges import reads as forge_reads
from terracrew.server.forges import store as forge_store
from terracrew.server.forges.clients import Forges
from terracrew.server.forges.model import ForgeConnection, ForgeRepository
from terracrew.server.git import trees
from terracrew.server.git.mirrors import RepositoryMirrors
from terracrew.server.git.remotes import RemoteLogin
from terracrew.server.registry import documentation, model, publishing, service, store
from terracrew.server.registry.model import PublishedModule, RegistryVersion
from terracrew.server.tree.groups.quotas import Quotas
from terracrew.server.tree.modules import archives
from terracrew.server.uploads.service import Staging
from terracrew.source_rules import archive, configurations

MAX_NEW_VERSIONS = 25
"""How many versions one look makes. The next look makes the others."""
MAX_REFUSED_TAGS = 500
"""How many tags that cannot become versions are remembered, those with the highest versions. Others are tried again and again, after
all tags with higher versions."""
MAX_FILE_BYTES = 32 << 20
SAME_TAGS_SECONDS = 10.0
"""Published modules of one repository that are looked at within this time ask for its tags once."""


class LookTaken(TerracrewError):
    """Another server works on the module by now, or somebody has changed it: this look does not count."""


@dataclass(frozen=True)
class TagTools:
    """What it takes to follow the tags of repositories."""

    db: Database
    forges: Forges
    mirrors: RepositoryMirrors
    staging: Staging
    quotas: Quotas
    server_id: str
    known: dict[str, tuple[datetime, dict[str, str]]] = field(
        default_factory=dict[str, tuple[datetime, dict[str, str]]]
    )
    """The tags of repositories, with the time before they were read by the clock of the database, by their mirrors."""


class TaggedRepository(msgspec.Struct, frozen=True):
    connection: ForgeConnection
    repository: ForgeRepository


class TagPlan(msgspec.Struct, frozen=True):
    """What is to be done about the tags of a repository."""

    new: list[tuple[str, str, str]]
    """The version, the tag and the commit of each version to make, the highest first."""
    moved: dict[str, str]
    """The versions whose tags name another commit than before, by their ids; '' for the first commit again."""
    refused: list[RefusedTag]
    """The tags that cannot become versions."""


async def repository_of(tx: Tx, module: PublishedModule) -> TaggedRepository:
    """Return the repository of a module. Raises Conflict or Unavailable in words if there is none yet."""
    found = await forge_reads.repository_of(tx, module.organization_id, module.group, module.url)
    if found is None:
        raise Conflict(
            f"no connection to a forge of the group `{module.group}` or one above it reads {module.url}: connect the forge first "
            "(`terracrew forge create`; for a plain git repository with the kind `git`)"
        )
    known = await repository_store.named(tx, found[0].id, found[1])
    if known is not None and not known.clone_url and known.problem:
        raise Conflict(f"{module.url} cannot be read: {known.problem}")
    if known is None or not known.clone_url:
        raise Unavailable("the forge has not yet told the address of the repository")
    return TaggedRepository(found[0], known)


def plan(
    tags: Mapping[str, str], prefix: str, known: Sequence[RegistryVersion], refused: Sequence[RefusedTag]
) -> TagPlan:
    """Decide what follows from the tags of a repository."""
    versions = {each.version: each for each in known}
    before = {(each.tag, each.commit_id): each for each in refused}
    wanted: dict[str, tuple[str, str]] = {}
    moved: dict[str, str] = {}
    kept: list[RefusedTag] = []
    for tag, commit in sorted(tags.items(), key=lambda each: (not _has_v(each[0], prefix), each)):
        version = version_of(tag, prefix)
        if version is None:
            continue
        there = versions.get(version)
        if there is not None and there.tag == tag:
            now = "" if there.commit_id == commit else commit
            if there.moved_to != now:
                moved[there.id] = now
        elif there is not None and (there.commit_id != commit or not there.tag):
            made = "was uploaded" if not there.tag else f"was made of the tag {there.tag}"
            kept.append(RefusedTag(tag, commit, f"version {version} {made} already, and versions never change"))
        elif version in wanted and wanted[version][1] != commit:
            other = wanted[version][0]
            kept.append(RefusedTag(tag, commit, f"the tag {other} is for the same version, and names another commit"))
        elif (tag, commit) in before:
            kept.append(before[tag, commit])
        elif there is None:
            wanted.setdefault(version, (tag, commit))
    ordered = sorted(wanted, key=lambda each: model.parse_version(each).order, reverse=True)
    return TagPlan([(each, *wanted[each]) for each in ordered], moved, kept)


def version_of(tag: str, prefix: str) -> str | None:
    """Return the version that a tag stands for; None if it stands for none."""
    if not tag.startswith(prefix):
        return None
    text = tag.removeprefix(prefix).removeprefix("v")
    if len(text) > MAX_VERSION_CHARACTERS:
        return None
    try:
        return str(model.parse_version(text))
    except Invalid:
        return None


def _has_v(tag: str, prefix: str) -> bool:
    return tag.removeprefix(prefix).startswith("v")


async def look(tools: TagTools, module: PublishedModule) -> list[RefusedTag]:
    """Make versions of new tags. Returns the tags that are none, with the reasons."""

    async def begin(tx: Tx) -> tuple[TaggedRepository, datetime]:
        return await repository_of(tx, module), tx.moment

    at, now = await tools.db.read(begin)
    login = await tools.forges.git_login(at.connection, at.repository)
    organization_id, repository = at.connection.organization_id, at.repository
    tags = await _tags(tools, at, login, module.asked_at, now)
    known = await tools.db.read(lambda tx: store.versions(tx, module.id))
    planned = plan(tags, module.tag_prefix, known, module.refused_tags)
    if planned.moved:
        await tools.db.write(lambda tx: _mark_moved(tx, tools, module, planned.moved))
    refused = list(planned.refused)
    room = max(0, service.MAX_VERSIONS - len(known))
    new = planned.new[: min(MAX_NEW_VERSIONS, room)]
    if len(planned.new) > room:  # they are not read, because each look would read them again
        why = f"there are {service.MAX_VERSIONS:,} versions, and there can be no more"
        refused += [RefusedTag(tag, commit, why) for _, tag, commit in planned.new[room : room + MAX_REFUSED_TAGS]]
    if new:
        refs = [f"refs/tags/{tag}" for _, tag, _ in new]
        fetched = await tools.mirrors.fetch(repository.mirror_key, organization_id, repository.clone_url, login, refs)
        for version, tag, commit in new:
            try:
                if why := fetched.failed.get(f"refs/tags/{tag}"):
                    raise Invalid(f"it cannot be fetched: {why}")
                if not await tools.mirrors.has(repository.mirror_key, [commit]):
                    raise Unavailable(f"the tag {tag} moved while it was read")
                await _make(tools, module, repository.mirror_key, version, tag, commit)
            except (LookTaken, Unavailable, Conflict):  # it may pass, such as a quota: the next look tries again
                raise
            except TerracrewError as error:  # its files are the reason; the other tags become versions all the same
                refused.append(RefusedTag(tag, commit, error.message[:300]))
    refused.sort(
        key=lambda each: model.parse_version(version_of(each.tag, module.tag_prefix) or "0.0.0").order, reverse=True
    )
    return refused[:MAX_REFUSED_TAGS]


async def _tags(
    tools: TagTools, at: TaggedRepository, login: RemoteLogin | None, asked_at: datetime | None, now: datetime
) -> dict[str, str]:
    """Return the tags as they are. Those that were just read for another module are enough, unless somebody has asked since."""
    key = at.repository.mirror_key
    for old in [
        each for each, (read_at, _) in tools.known.items() if (now - read_at).total_seconds() > SAME_TAGS_SECONDS
    ]:
        del tools.known[old]
    known = tools.known.get(key)
    if known is not None and (asked_at is None or known[0] > asked_at):
        return known[1]
    found = await tools.mirrors.tags(at.connection.organization_id, at.repository.clone_url, login)
    tools.known[key] = now, found
    return found


async def _make(tools: TagTools, module: PublishedModule, key: str, version: str, tag: str, commit: str) -> None:
    pack = await _packed(tools, module, key, commit)
    described = msgspec.json.encode(await asyncio.to_thread(documentation.of_archive, pack)).decode()
    kept = await archives.keep_pack(tools.staging, tools.quotas, module.organization_id, pack)

    async def work(tx: Tx) -> None:
        held = await hold(tx, tools, module)
        made = RegistryVersion(
            id=ids.new("pbv"),
            published_id=held.id,
            version=version,
            archive_id=kept.id,
            sha256=kept.sha256,
            size=kept.size,
            tag=tag,
            commit_id=commit,
            created_by=held.id,
            created_by_name=held.principal.name,
            created_at=tx.moment,
        )
        await publishing.write(tx, held.principal, held, made, described)

    await tools.db.write(work)


async def _packed(tools: TagTools, module: PublishedModule, key: str, commit: str) -> bytes:
    """Return the folder of a commit as an archive."""
    below = f"{module.folder}/" if module.folder else ""
    entries = [each for each in await trees.entries(tools.mirrors, key, commit) if each.path.startswith(below)]
    if not entries:
        raise NotFound(f"the commit {commit[:12]} has no folder {module.folder}")
    names = [each.path.removeprefix(below) for each in entries if each.is_file]
    tops = [name for name in names if not posixpath.dirname(name)]
    if not any(configurations.is_match(each, configurations.PATTERNS["tofu"]) for each in tops):
        raise Invalid("its files have no configuration (no *.tf or *.tofu file) in their top folder")
    contents = await trees.files(tools.mirrors, key, entries, MAX_FILE_BYTES)
    modes = {each.path: each.mode for each in entries}
    files = [(path.removeprefix(below), modes[path], content) for path, content in contents.items()]
    return await asyncio.to_thread(archive.pack_files, files)


async def pushed(tx: Tx, connection: ForgeConnection, repository: ForgeRepository) -> None:
    """Let the tags of a repository be looked at at once, because its forge says that one was pushed."""
    connections = await forge_store.of_organization(tx, connection.organization_id)
    found: list[PublishedModule] = []
    for each in await store.following(tx, connection.organization_id):
        meant = addresses.connection_for(connections, each.organization_id, each.group, each.url)
        if meant is not None and (meant[0].id, addresses.key(meant[1])) == (connection.id, repository.name_key):
            found.append(each)
    await store.ask(tx, [each.id for each in found])
    for group_id in sorted({each.group_id for each in found}):
        tx.wake("tree", group_id)


async def hold(tx: Tx, tools: TagTools, module: PublishedModule) -> PublishedModule:
    """Hold the row of a module that this server works on, as it was when it began. Raises LookTaken."""
    row = await store.hold(tx, module.id)
    if row is None or row.lease_holder != tools.server_id or row.revision != module.revision:
        raise LookTaken("the published module was changed, or another server works on it")
    return row


async def _mark_moved(tx: Tx, tools: TagTools, module: PublishedModule, moved: Mapping[str, str]) -> None:
    held = await hold(tx, tools, module)
    for version_id, commit in moved.items():
        await store.mark_moved(tx, version_id, commit)
    tx.wake("tree", held.group_id)
