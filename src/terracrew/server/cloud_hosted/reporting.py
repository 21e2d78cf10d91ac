"""What of ours is in an account, who owns it and what it costs. The fleet process asks the cloud; the rows here say who owns it."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from terracrew.api.cloud_identities import FoundResource, IdentityReport, ReportedResource, ResourceOwner
from terracrew.server.cloud_hosted import reporting_reads
from terracrew.server.cloud_hosted.model import CloudCalls
from terracrew.server.cloud_identities import service
from terracrew.server.cloud_identities import store as identities
from terracrew.server.cloud_identities.model import IdentityRecord, as_cloud_identity
from terracrew.server.db.seam import Database, Tx
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal


async def last(tx: Tx, who: Principal, reference: str) -> IdentityReport:
    """Return what was found when somebody last looked. The owners are judged anew."""
    record = await service.find(tx, who, reference)
    return await of_record(tx, record)


async def of_record(tx: Tx, record: IdentityRecord) -> IdentityReport:
    found, at = await identities.last_found(tx, record.id)
    return await _report(tx, record, found, at)


async def look(db: Database, calls: CloudCalls, who: Principal, reference: str, issuer: str) -> IdentityReport:
    """Ask the cloud what of ours is there, and keep the answer. Raises what the cloud refused, or Unavailable."""
    record = await db.read(lambda tx: service.find(tx, who, reference, Verb.RUNNER_WRITE))
    found = await calls.found(as_cloud_identity(record, issuer))

    async def keep(tx: Tx) -> IdentityReport:
        await identities.keep_found(tx, record.id, found)
        return await _report(tx, record, found, tx.moment)

    return await db.write(keep)


async def _report(
    tx: Tx, record: IdentityRecord, found: Sequence[FoundResource], at: datetime | None
) -> IdentityReport:
    known = await reporting_reads.owners(tx, record.organization_id, {each.runner_id for each in found})
    numbers = await reporting_reads.job_numbers(tx, record.organization_id, {each.job_id for each in found})
    resources = [_judged(each, known, numbers, record) for each in found]
    resources.sort(key=lambda each: (each.owner == "runner", each.runner, each.kind, each.name))
    prices = [each.dollars_a_month for each in found if each.dollars_a_month is not None]
    return IdentityReport(record.path, at, resources, round(sum(prices), 2), len(found) - len(prices))


def _judged(
    found: FoundResource,
    known: Mapping[str, reporting_reads.KnownRunner],
    numbers: Mapping[str, int],
    record: IdentityRecord,
) -> ReportedResource:
    runner = known.get(found.runner_id)
    owner: ResourceOwner = "elsewhere"
    words = (
        "No runner of this organization has its mark. Another organization or another server may have made it, so it is not "
        "removed from here."
    )
    if runner is not None and runner.removed_at is not None:
        owner = "nobody"
        words = f"Its runner was removed on {runner.removed_at:%d %b %Y}, and this is left."
    elif runner is not None and runner.identity_id == record.id:
        owner, words = "runner", ""
    elif runner is not None:
        owner = "nobody"
        words = "Its runner exists and is not deployed with this identity."
    return ReportedResource(
        **msgspec.structs.asdict(found),
        owner=owner,
        runner=runner.name if runner else "",
        owner_words=words,
        job_number=numbers.get(found.job_id),
    )
