"""Makes, changes, shows and deletes published modules, withdraws versions, and checks that the caller may do so.

To publish takes the right to change the group. Nothing ever changes the files of a version.
"""

import re
from datetime import datetime

import msgspec
from msgspec.structs import replace

from terracrew import ids
from terracrew.api import fields
from terracrew.api.pages import Page
from terracrew.api.registry import (
    ModuleDocumentation,
    NewPublishedModule,
    PublishedModuleChange,
    PublishedModuleDetails,
    PublishedModuleSettings,
    PublishedModuleView,
    PublishedVersionChange,
    PublishedVersionDetails,
    PublishedVersionView,
)
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.protocol.spec import GitSource
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import service as discovery
from terracrew.server.forges import reads as forge_reads
from terracrew.server.forges import repository_store
from terracrew.server.paging import cursor, start_number
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.registry import access, model, store
from terracrew.server.registry.model import PublishedModule, RegistryVersion
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import tree_path as paths
from terracrew.source_rules import git as git_rules

MAX_MODULES = 1_000
"""For each organization."""
MAX_VERSIONS = 1_000
"""For each published module."""
MAX_REFERENCE_CHARACTERS = 2_000
_PREFIX = re.compile(r"(?:[0-9A-Za-z][0-9A-Za-z._/-]*)?")
"""What names of tags may begin with, so that git takes none of it for something else."""


async def create(tx: Tx, who: Principal, new: NewPublishedModule) -> PublishedModuleView:
    """Make a published module of a group that the caller may change. It has no version yet."""
    reference = new.group.strip("/")
    if not reference:
        model.check_group("")
    group = await groups.find(tx, who, reference)
    await authorize.require(tx, who, Verb.TREE_WRITE, groups.place(group), groups.unseen(reference))
    model.check_group(group.path)
    model.check_name(new.name, new.system)
    _check(new)
    if await store.at(tx, group.organization_id, group.path, new.name, new.system) is not None:
        raise Conflict(f"the group `{group.path}` publishes a module `{new.name}/{new.system}` already", field="name")
    if await store.count(tx, group.organization_id) >= MAX_MODULES:
        raise Conflict(f"the organization has {MAX_MODULES:,} published modules: delete one that nobody uses")
    made = fields.created(
        PublishedModule,
        new,
        id=ids.new("pub"),
        organization_id=group.organization_id,
        group_id=group.id,
        group=group.path,
        folder=new.folder.strip("/"),
        created_by=who.id,
        created_by_name=who.name,
        created_at=tx.moment,
        changed_at=tx.moment,
        due_at=tx.moment if new.url else None,
    )
    await store.insert(tx, made)
    await record(tx, who, made, "registry.create", readers=made.readers, url=made.url)
    return view(made)


async def change(tx: Tx, who: Principal, reference: str, wanted: PublishedModuleChange) -> PublishedModuleView:
    before = await hold(tx, who, reference)
    after = fields.changed(before, wanted)
    after = replace(after, folder=after.folder.strip("/"))
    _check(after)
    if after == before:
        return view(before)
    due_at = tx.moment if after.url else None
    after = replace(
        after,
        changed_at=tx.moment,
        revision=before.revision + 1,
        due_at=due_at,
        failures=0,
        problem="",
        refused_tags=[],
    )
    await store.change(tx, after)
    names = PublishedModuleSettings.__struct_fields__
    changed = [name for name in names if getattr(before, name) != getattr(after, name)]
    await record(tx, who, after, "registry.change", changed=changed)
    return view(after)


async def look(tx: Tx, who: Principal, reference: str) -> PublishedModuleView:
    """Let the tags of the repository be looked at again at once. One that could not be read is asked about first."""
    seen = await find(tx, who, reference)
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(seen.organization_id, seen.group))
    if not seen.url:
        raise Conflict(f"{seen.path} follows no repository: its versions are uploaded")
    await _ask_repository(tx, seen)
    found = await hold(tx, who, reference)
    await store.make_due(tx, found.id)
    await record(tx, who, found, "registry.look")
    return view(found)


async def _ask_repository(tx: Tx, module: PublishedModule) -> None:
    """Let a repository that could not be read be asked about at once. Rows of repositories are locked before those of modules."""
    at = await forge_reads.repository_of(tx, module.organization_id, module.group, module.url)
    known = await repository_store.named(tx, at[0].id, at[1]) if at else None
    if known is not None and known.problem and (held := await repository_store.hold(tx, known.id)):
        await repository_store.save(tx, held, replace(held, poll_at=tx.moment))
        tx.wake("forges", known.connection_id)


async def delete(tx: Tx, who: Principal, reference: str) -> PublishedModule:
    """Delete a published module whose versions are all withdrawn, so that nobody loses by one slip what others use."""
    found = await hold(tx, who, reference)
    left = [each.version for each in await store.versions(tx, found.id) if not each.is_withdrawn]
    if left:
        raise Conflict(
            f"{found.path} has {len(left):,} versions that engines may use, such as {left[-1]}: withdraw them first",
            versions=len(left),
        )
    await store.delete(tx, found.id)
    await record(tx, who, found, "registry.delete")
    return found


async def delete_group(tx: Tx, who: Principal, reference: str) -> None:
    """Delete an empty group, with its discovery rules. One that publishes modules is not empty."""
    group = await groups.find(tx, who, reference)
    await authorize.require(tx, who, Verb.TREE_WRITE, groups.place(group), groups.unseen(reference))
    if count := await store.count_of_group(tx, group.id):
        raise Conflict(f"group `{group.path}` publishes {count:,} modules: delete them first", published_modules=count)
    await discovery.delete_group(tx, who, reference)


async def show(tx: Tx, who: Principal, reference: str) -> PublishedModuleDetails:
    found = await find(tx, who, reference)
    known = await versions(tx, found)
    return fields.created(PublishedModuleDetails, view(found), versions=[shown(each) for each in known])


async def show_version(tx: Tx, who: Principal, reference: str, version: str) -> PublishedVersionDetails:
    module = await find(tx, who, reference)
    return await details(tx, await find_version(tx, module, version))


async def details(tx: Tx, version: RegistryVersion) -> PublishedVersionDetails:
    """Return a version with its documentation."""
    text = await store.documentation(tx, version.id)
    found = msgspec.json.decode(text, type=ModuleDocumentation) if text else None
    return fields.created(PublishedVersionDetails, shown(version), documentation=found)


async def listing(
    tx: Tx, who: Principal, search: str, group: str, after: str | None, limit: int
) -> Page[PublishedModuleView]:
    """Return the published modules that the caller may use, in the order of their paths."""
    reader = await access.reader(tx, who)
    words = search.lower().split()
    known = await store.of_organization(tx, reader.organization_id)
    found = [each for each in known if reader.may_use(each) and _matches(each, words, group.strip("/"))]
    begin = start_number(after)
    items = [view(each) for each in found[begin : begin + limit]]
    return Page(items, cursor(str(begin + limit)) if len(found) > begin + limit else None)


async def find(tx: Tx, who: Principal, reference: str) -> PublishedModule:
    """Find a published module by its id or its path (`group/name/system`), if the caller may use it."""
    missing = NotFound(f"there is no published module `{reference[:300]}` here, or you may not see it")
    found = None
    if ids.is_id("pub", reference):
        found = await store.get(tx, ids.parse("pub", reference))
    elif reference.isprintable() and len(reference) <= MAX_REFERENCE_CHARACTERS:
        rest, system = paths.split(reference)
        found = await store.at(tx, who.organization_id or "", *paths.split(rest), system)
    if found is None or not (await access.reader(tx, who)).may_use(found):
        raise missing
    return found


async def addressed(tx: Tx, who: Principal, namespace: str, name: str, system: str) -> PublishedModule:
    """Find a published module as engines name it, if the caller may use it."""
    reader = await access.reader(tx, who)
    found = await store.at(tx, reader.organization_id, model.group_of(namespace), name, system)
    if found is None or not reader.may_use(found) or model.namespace(found.group) != namespace:
        raise NotFound("there is no published module of this name here, or this token may not use it")
    return found


async def versions(tx: Tx, module: PublishedModule) -> list[RegistryVersion]:
    """Return the versions of a module, the highest first."""
    found = await store.versions(tx, module.id)
    return sorted(found, key=lambda each: model.parse_version(each.version).order, reverse=True)


async def find_version(tx: Tx, module: PublishedModule, version: str) -> RegistryVersion:
    found = await store.version(tx, module.id, version)
    if found is None:
        raise NotFound(f"{module.path} has no version {version[:100]}")
    return found


async def usable(tx: Tx, module: PublishedModule, version: str) -> RegistryVersion:
    """Return a version that engines may have."""
    found = await find_version(tx, module, version)
    if found.is_withdrawn:
        why = f": {found.withdrawn_reason}" if found.withdrawn_reason else ""
        raise NotFound(f"version {version} of {module.path} is withdrawn{why}")
    return found


async def change_version(
    tx: Tx, who: Principal, reference: str, version: str, wanted: PublishedVersionChange
) -> PublishedVersionView:
    """Withdraw a version, or give it back."""
    module = await hold(tx, who, reference)
    found = await find_version(tx, module, version)
    if wanted.reason and not wanted.is_withdrawn:
        raise Invalid.in_field("reason", "only a version that is withdrawn has a reason")
    if found.is_withdrawn == wanted.is_withdrawn and found.withdrawn_reason == wanted.reason:
        return shown(found)
    at: datetime | None = None
    if wanted.is_withdrawn:
        at = found.withdrawn_at or tx.moment
    await store.withdraw(tx, found.id, at, wanted.reason)
    await store.set_latest(tx, module.id, model.latest(await store.versions(tx, module.id)))
    action = "registry.withdraw" if wanted.is_withdrawn else "registry.restore"
    await record(tx, who, module, action, version=version, reason=wanted.reason)
    return shown(await find_version(tx, module, version))


async def hold(tx: Tx, who: Principal, reference: str) -> PublishedModule:
    """Lock a published module that the caller may change."""
    found = await find(tx, who, reference)
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(found.organization_id, found.group))
    held = await store.hold(tx, found.id)
    if held is None:
        raise NotFound(f"the published module {found.path} has just been deleted")
    return held


def view(module: PublishedModule) -> PublishedModuleView:
    return fields.created(PublishedModuleView, module, path=module.path, address=module.address)


def shown(version: RegistryVersion) -> PublishedVersionView:
    return fields.created(PublishedVersionView, version, is_withdrawn=version.is_withdrawn)


async def record(tx: Tx, who: Principal, module: PublishedModule, action: str, **details: object) -> None:
    named = {"group": module.group, "name": f"{module.name}/{module.system}", **details}
    await audit.record(tx, who, action, "published_module", module.id, named, organization_id=module.organization_id)
    tx.wake("tree", module.group_id)


def _matches(module: PublishedModule, words: list[str], group: str) -> bool:
    text = f"{module.path} {module.description}".lower()
    return (not group or paths.is_within(module.group, group)) and all(word in text for word in words)


def _check(wanted: PublishedModuleSettings) -> None:
    for name in ("description", "folder", "tag_prefix"):
        if not getattr(wanted, name).isprintable():
            raise Invalid.in_field(name, "it has characters that cannot be printed")
    if not wanted.url:
        if wanted.folder or wanted.tag_prefix:
            field = "folder" if wanted.folder else "tag_prefix"
            raise Invalid.in_field(field, "this is about a repository: give its address, too")
        return
    if not _PREFIX.fullmatch(wanted.tag_prefix) or ".." in wanted.tag_prefix or "//" in wanted.tag_prefix:
        raise Invalid.in_field("tag_prefix", "write letters, digits, `.`, `_`, `-` and `/`, such as `vpc/`")
    folder = wanted.folder.strip("/")
    if "\\" in folder or (folder and any(part in ("", ".", "..") for part in folder.split("/"))):
        raise Invalid.in_field("folder", f"{folder!r} is not the path of a folder below the top of the repository")
    try:
        git_rules.check(GitSource(wanted.url))
    except Invalid as error:
        raise Invalid.in_field((error.field or "url").removeprefix("source."), error.reason) from None
