"""Publishes a version: an archive that was uploaded or made of a tag gets a number, which no other archive can have.

Invariant: a published module has at most one archive for each version, and it never changes. The row of the module is locked while a
version is written, and a unique constraint says the same.
"""

import asyncio
from dataclasses import dataclass, field

import msgspec

from terracrew import ids
from terracrew.api.modules import Archive
from terracrew.api.registry import NewPublishedVersion, PublishedVersionView
from terracrew.errors import Conflict, Invalid
from terracrew.server.db.seam import Database, Tx
from terracrew.server.objects import Objects
from terracrew.server.principals.model import Principal
from terracrew.server.registry import documentation, model, service, store
from terracrew.server.registry.model import PublishedModule, RegistryVersion
from terracrew.server.tree.modules import archives

MAX_READ_AT_ONCE = 2
"""How many archives are in memory while they are described."""


@dataclass(frozen=True)
class PublishingTools:
    """What publishing needs of a running server."""

    db: Database
    objects: Objects
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_READ_AT_ONCE))


async def publish(
    tools: PublishingTools, who: Principal, reference: str, new: NewPublishedVersion
) -> PublishedVersionView:
    """Publish an archive that the caller has uploaded. The same archive may be published again as the same version."""
    version = str(model.parse_version(new.version))

    async def begin(tx: Tx) -> Archive:
        module = await service.hold(tx, who, reference)
        return await _archive(tx, who, module, new.archive_id)

    archive = await tools.db.write(begin)
    described = await describe(tools, archive)

    async def work(tx: Tx) -> RegistryVersion:
        module = await service.hold(tx, who, reference)
        held = await _archive(tx, who, module, archive.id)
        made = RegistryVersion(
            id=ids.new("pbv"),
            published_id=module.id,
            version=version,
            archive_id=held.id,
            sha256=held.sha256,
            size=held.size,
            created_by=who.id,
            created_by_name=who.name,
            created_at=tx.moment,
        )
        return await write(tx, who, module, made, described)

    return service.shown(await tools.db.write(work))


async def describe(tools: PublishingTools, archive: Archive) -> str:
    """Return the documentation of an archive as JSON. Raises Invalid if its files cannot be used by themselves."""
    async with tools.turns:
        content = await tools.objects.get(archive.object)
        made = await asyncio.to_thread(documentation.of_archive, content)
    return msgspec.json.encode(made).decode()


async def write(
    tx: Tx, who: Principal, module: PublishedModule, made: RegistryVersion, described: str
) -> RegistryVersion:
    """Write a version of a module that the transaction holds."""
    known = await store.version(tx, module.id, made.version)
    if known is not None:
        if known.sha256 == made.sha256:
            if known.is_withdrawn:
                raise Conflict(
                    f"version {made.version} of {module.path} has these files and is withdrawn: give it back "
                    "(`terracrew registry restore`), or publish another number",
                    field="version",
                )
            return known
        raise Conflict(
            f"version {made.version} of {module.path} exists with other files (SHA-256 {known.sha256[:12]}…), and versions never "
            "change: publish these files under another number",
            field="version",
        )
    others = await store.versions(tx, module.id)
    if len(others) >= service.MAX_VERSIONS:
        raise Conflict(f"{module.path} has {service.MAX_VERSIONS:,} versions, and there can be no more")
    await store.insert_version(tx, made, described)
    await store.set_latest(tx, module.id, model.latest([*others, made]))
    details = {"version": made.version, "sha256": made.sha256, "tag": made.tag}
    await service.record(tx, who, module, "registry.publish", **details)
    return made


async def _archive(tx: Tx, who: Principal, module: PublishedModule, archive_id: str) -> Archive:
    found = await archives.hold(tx, who, module.organization_id, archive_id)
    if found.configurations is not None and not any("/" not in each for each in found.configurations):
        raise Invalid.in_field(
            "archive_id", "the archive has no configuration (no *.tf or *.tofu file) in its top folder"
        )
    return found
