"""What has expired is forgotten, by one server of all."""

from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity import service
from terracrew.server.identity.expiry import Expiry


async def test_expired_links_are_forgotten_by_the_one_server_that_holds_the_lease(database: Database) -> None:
    assert await service.first_start(database)
    first, second = Expiry(database, "one"), Expiry(database, "two")
    assert await first.step() == 0, "nothing has expired"

    async def age(tx: Tx) -> None:
        await tx.run("UPDATE one_time_links SET expires_at = :now", now=tx.now - 1)

    await database.write(age)
    assert await second.step() == 0, "the lease is the first one's"
    assert await first.step() == 1
    assert await database.read(lambda tx: tx.all("SELECT * FROM one_time_links")) == []
