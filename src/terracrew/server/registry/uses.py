"""Which modules use which versions of a published module, as far as their jobs have fetched them.

A job fetches with its own token, so the server knows the module. What an engine has kept from an earlier job is not fetched again, so a
time says when a version was fetched last, and not when it was used last.
"""

from terracrew.api.pages import Page
from terracrew.api.registry import PublishedModuleUse
from terracrew.server.db.seam import Tx
from terracrew.server.paging import cursor, start_number
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.registry import reads, service, store
from terracrew.server.registry.model import PublishedUse, RegistryVersion


async def is_new(tx: Tx, who: Principal, version: RegistryVersion) -> bool:
    """Return whether it is yet to be noted that a job has fetched a version. Of a person, nothing is noted."""
    if who.attempt is None:
        return False
    known = await store.use(tx, version.id, who.attempt.module_id)
    return known is None or known.job_id != who.attempt.job_id


async def note(tx: Tx, who: Principal, version: RegistryVersion) -> None:
    """Note that a job has fetched a version."""
    assert who.attempt is not None
    made = PublishedUse(
        version_id=version.id,
        module_id=who.attempt.module_id,
        job_id=who.attempt.job_id,
        first_at=tx.moment,
        fetched_at=tx.moment,
    )
    await store.put_use(tx, made)


async def listing(
    tx: Tx, who: Principal, reference: str, version: str, after: str | None, limit: int
) -> Page[PublishedModuleUse]:
    """Return the modules that have fetched a version, those that did last first. Modules that the caller may not see are left out."""
    module = await service.find(tx, who, reference)
    if version:
        await service.find_version(tx, module, version)
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    begin = start_number(after)
    found = await reads.uses(tx, module, seen, version, begin, limit + 1)
    return Page(found[:limit], cursor(str(begin + limit)) if len(found) > limit else None)
