"""Keeps the start of an attempt until its task fetches it, once. A second process that shows the same ticket gets nothing."""

import re

from terracrew.errors import Conflict, Invalid, TooLarge, Unauthenticated
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.start import MAX_START_BYTES, StartWanted
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.principals.model import Principal
from terracrew.server.runners.starts import store
from terracrew.server.runners.starts.store import HeldStart
from terracrew.server.secrets import credentials
from terracrew.server.secrets.keyring import Keyring

START_TTL_SECONDS = 2 * 3600.0
"""How long a start waits for its task. A runner gives up earlier than that."""
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
REFUSED = "this ticket is not valid (any more): a start is given away once"


def context(job_id: str, attempt: int) -> str:
    """Return what the ciphertext of a start is bound to."""
    return f"start of attempt {attempt} of {job_id}"


async def put(db: Database, keys: Keyring, ref: AttemptRef, ticket_sha256: str, content: bytes) -> None:
    """Keep what the runner starts this attempt with. A repetition replaces it, until somebody has fetched it."""
    if not _SHA256.match(ticket_sha256):
        raise Invalid("the hash of the ticket must be a SHA-256 in hexadecimal digits")
    if not content:
        raise Invalid("the body is empty: a start is expected")
    if len(content) > MAX_START_BYTES:
        raise TooLarge(f"the start has {len(content):,} bytes, and the largest that is kept has {MAX_START_BYTES:,}")
    sealed = keys.encrypt(content, context(ref.job_id, ref.attempt))

    async def work(tx: Tx) -> None:
        new = HeldStart(ref.job_id, ref.attempt, ticket_sha256, sealed, None, tx.now + START_TTL_SECONDS)
        if not await store.put(tx, new):
            raise Conflict("the start of this attempt was fetched or revoked already, so no other one is accepted")

    await db.write(work)


async def fetch(tx: Tx, keys: Keyring, wanted: StartWanted) -> tuple[AttemptRef, bytes]:
    """Return the start that belongs to a ticket. The caller checks that the attempt is still the current one.

    The claim is written in the caller's transaction, so an attempt that may not begin leaves its ticket unused.
    """
    ticket, claim = credentials.digest(wanted.ticket), credentials.digest(wanted.claim)
    found = await store.claim(tx, ticket, claim)
    if found is None or found.content is None:
        raise Unauthenticated(REFUSED)
    return AttemptRef(found.job_id, found.attempt), keys.decrypt(found.content, context(found.job_id, found.attempt))


async def is_known(tx: Tx, wanted: StartWanted) -> bool:
    """Return whether there is such a ticket, valid or not."""
    return await store.find(tx, credentials.digest(wanted.ticket)) is not None


async def used_twice(tx: Tx, wanted: StartWanted) -> AttemptRef | None:
    """Return the attempt whose ticket is shown by a second process; None if the ticket was never used, or this is known."""
    ticket, claim = credentials.digest(wanted.ticket), credentials.digest(wanted.claim)
    found = await store.find(tx, ticket)
    if found is None or found.claim_sha256 in (None, claim):
        return None
    return AttemptRef(found.job_id, found.attempt) if await store.report(tx, ticket) else None


async def record_second_use(tx: Tx, ref: AttemptRef, address: str, organization_id: str) -> None:
    """Write to the audit log that a ticket was used twice: one of the two processes may have stolen it."""
    who = Principal("anonymous", "", "a process with a used ticket", None, address=address)
    await audit.record(
        tx, who, "attempt.reuse_ticket", "job", ref.job_id, {"attempt": ref.attempt}, organization_id=organization_id
    )


async def revoke(db: Database, ref: AttemptRef) -> bool:
    """Remove the start of an attempt, so that nobody can fetch it any more. Returns whether somebody has."""
    return await db.write(lambda tx: store.revoke(tx, ref.job_id, ref.attempt))
