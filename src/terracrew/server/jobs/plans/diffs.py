"""Keeps the diff of a job's plan, encrypted under the master key."""

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.jobs.plans import diff_store
from terracrew.server.jobs.plans.diff_store import StoredDiff
from terracrew.server.secrets.keyring import Keyring


def context(job_id: str) -> str:
    """Return what the content of a row is bound to."""
    return f"diff:{job_id}"


async def keep(tx: Tx, diff: StoredDiff, keys: Keyring) -> None:
    """Store the diff of a plan. One that came in its event is encrypted here; an object is encrypted already."""
    sealed = None if diff.content is None else keys.encrypt(diff.content, context(diff.job_id))
    await diff_store.save(tx, msgspec.structs.replace(diff, content=sealed))
