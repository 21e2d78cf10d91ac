"""Finds out which commits earlier jobs of a module used, so that an executor notices a tag that has moved."""

import msgspec

from terracrew.protocol.spec import GitSource, KnownRevision, Source
from terracrew.server.db.seam import Row, Tx
from terracrew.server.jobs.attempts import claim_store

_source = msgspec.json.Decoder(Source)


async def of_job(tx: Tx, row: Row) -> list[KnownRevision]:
    """Return what revisions of the same repository meant to earlier jobs, the newest first. Only tags are compared."""
    if '"git"' not in row["source"]:  # most sources are of another kind, and need not be decoded for this
        return []
    source = _source.decode(row["source"])
    if not isinstance(source, GitSource) or not (source.tag or source.version):
        return []
    found = await claim_store.commits_of_earlier_jobs(tx, row["module_id"], row["id"])
    return [
        KnownRevision(each["source_revision"], each["source_commit"], each["number"])
        for each in found
        if _is_of(source.url, each["source"])
    ]


def _is_of(url: str, text: str) -> bool:
    source = _source.decode(text)
    return isinstance(source, GitSource) and source.url == url
