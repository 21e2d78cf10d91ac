"""Publishes a version: an archive that was uploaded or made of a tag gets a number, which no other archive can have.

Invariant: a published module has at most one archive for each version, and it never changes. The row of the module is locked while a
version is written, and a unique constraint says the same.
"""

from terracrew import ids
from terracrew.api.modules import Archive
from terracrew.api.registry import NewPublishedVersion, PublishedVersionView
from terracrew.errors import Conflict, Invalid
from terracrew.server.db.seam import Database, Tx
from terracrew.server.principals.model import Principal
from terracrew.server.registry import model, service, store
from terracrew.server.registry.model import PublishedModule, RegistryVersion
from terracrew.server.tree.modules import archives


async def publish(db: Database, who: Principal, reference: str, new: NewPublishedVersion) -> PublishedVersionView:
    """Publish an archive that the caller has uploaded. The same archive may be published again as the same version."""
    version = str(model.parse_version(new.version))

    async def work(tx: Tx) -> RegistryVersion:
        module = await service.hold(tx, who, reference)
        held = await _archive(tx, who, module, new.archive_id)
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
        return await write(tx, who, module, made, "")

    return service.shown(await db.write(work))


async def write(
    tx: Tx, who: Principal, module: PublishedModule, made: RegistryVersion, documentation: str
) -> RegistryVersion:
    """Write a version of a module that the transaction holds."""
    known = await store.version(tx, module.id, made.version)
    if known is not None:
        if known.sha256 == made.sha256:
            return known
        raise Conflict(
            f"version {made.version} of {module.path} exists with other files (SHA-256 {known.sha256[:12]}…), and versions never "
            "change: publish these files under another number",
            field="version",
        )
    others = await store.versions(tx, module.id)
    if len(others) >= service.MAX_VERSIONS:
        raise Conflict(f"{module.path} has {service.MAX_VERSIONS:,} versions, and there can be no more")
    await store.insert_version(tx, made, documentation)
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
