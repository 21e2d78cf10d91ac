"""A server that is told of a point that its database lacks knows that it was set back, and nobody else can make it believe so."""

from pathlib import Path

from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Database, Tx
from terracrew.server.history.points import History
from terracrew.server.secrets.keyring import Keyring

KEYS = Keyring([bytes(32)])
CHANGE = AttemptRef("job_1", 1)


async def set_back(database: Database) -> None:
    await database.write(lambda tx: tx.run("DELETE FROM history"))


async def test_a_point_that_the_database_lacks_is_missing_and_names_its_module(database: Database) -> None:
    history = History(KEYS)
    kept = await database.write(history.add)
    lost = await database.write(lambda tx: history.add(tx, "mod_1", CHANGE))
    assert await database.read(lambda tx: History(KEYS).missing(tx, [kept, lost])) == []
    await database.write(lambda tx: tx.run("DELETE FROM history WHERE id = :id", id=lost.partition(".")[0]))
    [missing] = await database.read(lambda tx: History(KEYS).missing(tx, [kept, lost]))
    assert (missing.module_id, missing.change) == ("mod_1", CHANGE)


async def test_a_server_that_was_set_back_and_goes_on_does_not_catch_up_with_what_it_lost(database: Database) -> None:
    history = History(KEYS)
    lost = await database.write(history.add)
    await set_back(database)
    for _ in range(3):
        await database.write(History(KEYS).add)
    assert await database.read(lambda tx: History(KEYS).missing(tx, [lost]))


async def test_nobody_can_invent_a_point(database: Database) -> None:
    history = History(KEYS)
    point = await database.write(history.add)
    await set_back(database)
    point_id, _, seal = point.partition(".")
    elsewhere = await database.write(History(Keyring([bytes([1]) * 32])).add)
    await set_back(database)
    forged = ["", "x", f"{point_id}.", f"{point_id}.AAAA", f"hst_{'0' * 32}.{seal}", elsewhere, "\u20ac.\u20ac"]
    assert await database.read(lambda tx: History(KEYS).missing(tx, forged)) == []
    assert len(await database.read(lambda tx: History(KEYS).missing(tx, [*forged, point]))) == 1


async def test_a_server_notices_that_its_own_last_point_is_gone(database: Database) -> None:
    history = History(KEYS)
    assert not await database.read(history.lacks_latest)
    await database.write(history.add)
    assert not await database.read(history.lacks_latest)
    await set_back(database)
    assert await database.read(history.lacks_latest)


async def test_the_last_point_is_remembered_in_the_data_directory(database: Database, tmp_path: Path) -> None:
    file = tmp_path / "history"
    history = History(KEYS, file)
    assert history.remembered() == ""
    point = await database.write(history.add)
    history.remember()
    assert History(KEYS, file).remembered() == point


async def test_a_point_says_when_it_was_made_by_the_clock_of_the_database(database: Database) -> None:
    """By the clock of a server that is ahead, what was lost would never be older than the hold that covers it."""
    point, now = await database.write(lambda tx: timed(tx, History(KEYS)))
    await set_back(database)
    [missing] = await database.read(lambda tx: History(KEYS).missing(tx, [point]))
    assert missing.at == now


async def timed(tx: Tx, history: History) -> tuple[str, float]:
    return await history.add(tx), tx.now
