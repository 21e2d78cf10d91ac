"""Notes how the last contact with a forge went, and leaves a forge alone that is away, asks to wait, or refuses the token."""

from datetime import timedelta

from msgspec.structs import replace

from terracrew import backoff
from terracrew.errors import TerracrewError
from terracrew.forges.contract import ForgeAway, ForgeRefused
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import repository_store, store
from terracrew.server.forges.model import ForgeConnection

FIRST_AWAY_SECONDS = 5.0
MAX_AWAY_SECONDS = 120.0
REFUSED_SECONDS = 300.0
"""How often a token that the forge does not accept is tried."""
NOTED_SECONDS = 60.0
"""A good contact is written this often."""


async def good(tx: Tx, connection: ForgeConnection) -> None:
    """Write that a forge has answered. What was wrong before is over."""
    last = connection.contacted_at
    if not connection.problem and last is not None and tx.moment - last < timedelta(seconds=NOTED_SECONDS):
        return
    before = await store.hold(tx, connection.id)
    if before is None or before.credential_version != connection.credential_version:
        return
    after = replace(before, contacted_at=tx.moment, problem="", failures=0, away_until=None)
    await store.save(tx, before, after)
    if before.problem:
        await repository_store.poll_now(tx, connection.id)
        tx.wake("forges", connection.id)


async def failed(tx: Tx, connection: ForgeConnection, error: TerracrewError) -> None:
    """Write why a forge could not be asked, and until when it is left alone."""
    before = await store.hold(tx, connection.id)
    if before is None or before.credential_version != connection.credential_version:
        return  # it has another credential by now, which is tried at once
    failures = before.failures + 1
    if isinstance(error, ForgeAway):
        doubled = FIRST_AWAY_SECONDS * 2 ** min(failures - 1, 10)
        seconds = max(error.retry_after_seconds, backoff.jittered(min(doubled, MAX_AWAY_SECONDS), 0.2))
    else:
        seconds = REFUSED_SECONDS
    until = tx.moment + timedelta(seconds=seconds)
    known = before.away_until
    after = replace(
        before, problem=error.message, failures=failures, away_until=until if known is None else max(until, known)
    )
    await store.save(tx, before, after)
    if before.problem != after.problem:
        tx.wake("forges", connection.id)


async def note_failure(db: Database, connection: ForgeConnection, error: TerracrewError) -> None:
    await db.write(lambda tx: failed(tx, connection, error))


def is_of_connection(error: TerracrewError) -> bool:
    """Return whether an error is about the whole connection, and not about one repository or pull request."""
    return not isinstance(error, ForgeRefused) or error.answer_status == 401
