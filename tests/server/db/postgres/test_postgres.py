"""PostgreSQL survives lost connections and deadlocks, and keeps time by its own clock."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from terracrew.errors import Unavailable
from terracrew.server.connections import store
from terracrew.server.db import Database, Tx, open_database
from tests.builders.job_rows import insert, insert_instance
from tests.machine.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[Database]:
    db = await open_database(postgres_url)

    async def work(tx: Tx) -> None:
        await tx.run("CREATE TABLE things (id text PRIMARY KEY, n bigint NOT NULL)")
        await tx.run("INSERT INTO things (id, n) VALUES ('a', 0), ('b', 0)")

    await db.write(work)
    yield db
    await db.close()


async def total(tx: Tx) -> int:
    row = await tx.one("SELECT CAST(sum(n) AS bigint) AS n FROM things")
    assert row is not None
    return row["n"]


async def test_a_connection_lost_in_a_transaction_is_unavailable_and_the_next_one_works(postgres: Database) -> None:
    async def work(tx: Tx) -> None:
        await tx.run("UPDATE things SET n = 7")
        await tx.one("SELECT pg_terminate_backend(pg_backend_pid())")

    with pytest.raises(Unavailable):
        await postgres.write(work)
    assert await postgres.read(total) == 0

    async def again(tx: Tx) -> int:
        return await tx.run("UPDATE things SET n = 1")

    assert await postgres.write(again) == 2


async def test_a_unit_whose_connection_fails_after_the_commit_learns_that_its_outcome_is_unknown(
    postgres: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that has expired is closed when it is given back, and PostgreSQL did not answer to that."""
    told: list[str] = []

    async def work(tx: Tx) -> None:
        tx.on_commit(lambda: told.append("committed"))
        tx.on_failure(lambda: told.append("unknown"))
        await tx.run("UPDATE things SET n = 1")

    release = asyncpg.Pool.release  # pyright: ignore

    async def fail(pool: Any, connection: Any, *, timeout: float) -> None:
        await release(pool, connection, timeout=timeout)  # pyright: ignore
        raise TimeoutError

    with monkeypatch.context() as patched:
        patched.setattr(asyncpg.Pool, "release", fail)  # pyright: ignore
        with pytest.raises(Unavailable):
            await postgres.write(work)
    assert told == ["unknown"]
    assert await postgres.read(total) == 2


async def test_the_loser_of_a_deadlock_is_run_again(postgres: Database) -> None:
    held = {"a": asyncio.Event(), "b": asyncio.Event()}
    runs = 0

    async def crossing(tx: Tx, mine: str, theirs: str) -> None:
        nonlocal runs
        runs += 1
        await tx.run("SET LOCAL deadlock_timeout = '20ms'")
        await tx.run("UPDATE things SET n = n + 1 WHERE id = :id", id=mine)
        held[mine].set()
        await held[theirs].wait()
        await tx.run("UPDATE things SET n = n + 1 WHERE id = :id", id=theirs)

    await asyncio.wait_for(
        asyncio.gather(
            postgres.write(lambda tx: crossing(tx, "a", "b")), postgres.write(lambda tx: crossing(tx, "b", "a"))
        ),
        20,
    )
    assert await postgres.read(total) == 4
    assert runs > 2


async def test_more_callers_than_connections_take_turns(postgres: Database) -> None:
    """Those who wait go first: nobody who has just been served overtakes them."""
    served = [0] * 40
    spread: list[int] = []

    async def caller(number: int) -> None:
        for _ in range(20):
            await postgres.write(total)
            served[number] += 1
            if served[number] == 10:
                spread.append(max(served) - min(served))

    await asyncio.gather(*(postgres.write(total) for _ in range(40)))  # every connection is open then
    await asyncio.wait_for(asyncio.gather(*(caller(number) for number in range(40))), 30)
    assert max(spread) <= 6, "10 if those who were served last were served again"


async def test_a_reading_of_the_clock_is_what_the_database_would_have_said(postgres: Database) -> None:
    async def work(tx: Tx) -> float:
        row = await tx.one("SELECT CAST(extract(epoch FROM clock_timestamp()) AS double precision) AS told")
        assert row is not None
        return row["told"] - tx.now

    assert -0.1 < await postgres.write(work) < 0.5


async def test_a_server_that_is_not_there_is_unavailable_and_keeps_the_password(
    postgres_server: PostgresServer,
) -> None:
    for url in ("postgresql://me:s3cret@127.0.0.1:1/none", f"{postgres_server.url}/no_such_database"):
        with pytest.raises(Unavailable) as caught:
            await open_database(url)
        assert "s3cret" not in str(caught.value)


async def test_heartbeats_of_a_whole_page_of_instances_stay_on_that_page(postgres: Database) -> None:
    """Each of them moved to another page, and to a new entry of every index: most of what idle runners cost PostgreSQL."""
    made = [f"ins_{number:04}" for number in range(500)]

    async def fill(tx: Tx) -> None:
        await insert(tx, "runners", id="rnr_1", name="a", path="a", type="self-hosted", max_jobs=1, created_at=tx.now)
        for each in made:
            await insert_instance(tx, "rnr_1", id=each, name=each)

    async def beat(tx: Tx) -> tuple[int, int]:
        await store.note_instance_contacts(tx, [(each, 1, tx.now + 1) for each in made])
        row = await tx.one(
            "SELECT n_tup_upd AS moved, n_tup_hot_upd AS kept FROM pg_stat_xact_user_tables WHERE relname = 'instances'"
        )
        assert row is not None
        return row["moved"], row["kept"]

    await postgres.write(fill)
    assert await postgres.write(beat) == (len(made), len(made))


async def test_a_fill_factor_that_the_owner_of_the_database_has_chosen_is_kept(
    postgres: Database, postgres_url: str
) -> None:
    async def chosen(tx: Tx) -> list[str]:
        row = await tx.one("SELECT reloptions FROM pg_class WHERE oid = 'instances'::regclass")
        assert row is not None
        return row["reloptions"]

    assert await postgres.read(chosen) == ["fillfactor=45"]
    await postgres.write(lambda tx: tx.run("ALTER TABLE instances SET (fillfactor = 70)"))
    await (await open_database(postgres_url)).close()
    assert await postgres.read(chosen) == ["fillfactor=70"]


def test_a_missing_driver_says_how_to_get_it() -> None:
    script = """
import asyncio, sys
sys.modules["asyncpg"] = None
from terracrew.server.db import open_database
asyncio.run(open_database("postgresql://127.0.0.1/x"))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert "Invalid: PostgreSQL needs its driver: pip install 'terracrew[postgres]'" in ran.stderr
