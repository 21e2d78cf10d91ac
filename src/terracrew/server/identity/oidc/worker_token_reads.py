"""Reads the runners of worker tokens, for many connections with one statement: a whole fleet asks after an outage."""

from collections.abc import Sequence

from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.identity.access import credential_store


class WorkerTokenReads:
    def __init__(self, db: Database) -> None:
        self.by_digest = db.grouped_reads(_by_digests)
        """Takes the digest of a token, and returns the runner that may use it now, and the time of the read."""
        self.of_runner = db.grouped_reads(_of_runners)
        """Takes the id of a runner, and returns the runner if its token is valid now."""


async def _by_digests(tx: Tx, digests: list[str]) -> Sequence[tuple[Row | None, float]]:
    found = await credential_store.runners_by_worker_tokens(tx, digests)
    return [(found.get(each), tx.now) for each in digests]


async def _of_runners(tx: Tx, runner_ids: list[str]) -> Sequence[Row | None]:
    found = await credential_store.runners_with_worker_tokens(tx, runner_ids)
    return [found.get(each) for each in runner_ids]
