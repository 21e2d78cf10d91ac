"""What is written of a poll that has found nothing new leaves everything else as it is."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import repository_store
from terracrew.server.forges.model import ForgeRepository
from tests.server.forges import forge_rows

pytestmark = pytest.mark.feature("F2.order", "F2.polling")


async def claimed(db: Database, holder: str) -> ForgeRepository:
    await forge_rows.repository(db)
    [found] = await db.write(lambda tx: repository_store.claim_due(tx, holder, 30.0, 64))
    return found


async def unchanged(db: Database, holder: str, repository: ForgeRepository) -> ForgeRepository:
    async def work(tx: Tx) -> ForgeRepository | None:
        later = tx.moment + timedelta(seconds=45)
        await repository_store.save_unchanged(tx, holder, [(repository, later)])
        return await repository_store.get(tx, repository.id)

    found = await db.write(work)
    assert found is not None
    return found


async def test_a_poll_without_news_ends_its_lease_and_waits_for_the_next_one(database: Database) -> None:
    before = await claimed(database, "srv_1")
    after = await unchanged(database, "srv_1", before)
    assert (after.lease_holder, after.lease_until, after.polled_at is None) == (None, None, False)
    assert after.poll_at > before.poll_at
    assert (after.list_question, after.default_question) == (before.question, before.question)
    assert await database.write(lambda tx: repository_store.claim_due(tx, "srv_2", 30.0, 64)) == []


async def test_what_was_answered_to_a_newer_question_meanwhile_stays(database: Database) -> None:
    """A delivery has told a newer commit and emptied the tags, so that the next poll reads everything."""
    before = await claimed(database, "srv_1")
    newer = replace(before, default_commit="b" * 40, default_question=before.question + 1, list_question=7, etag="")
    await database.write(lambda tx: repository_store.save(tx, before, newer))
    after = await unchanged(database, "srv_1", replace(before, etag="an old tag"))
    assert (after.default_commit, after.default_question, after.list_question) == ("b" * 40, before.question + 1, 7)
    assert after.etag == ""


async def test_a_server_that_has_lost_its_lease_writes_nothing(database: Database) -> None:
    before = await claimed(database, "srv_2")
    assert await unchanged(database, "srv_1", before) == before
