"""`list_ms`, `page_ms`, `loop_block_ms`: lists and pages of a large organization, for an administrator and for a user who owns
one small group, while jobs are dispatched.

Each of the two readers loads a list or a page about every 0.07 s, and eight jobs a second are dispatched meanwhile.
Before that, the same is measured for an idle server and for the disk: `loop_block_idle_ms` and
`sync_idle_ms` are the noise of the machine.
What only owners of the whole organization may see is refused to the owner of one group: that figure is the time of the refusal.
"""

import asyncio
import os
import random
import time
from pathlib import Path

import msgspec
import psycopg

from terracrew.server.db import open_database
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import service
from terracrew.server.identity.people import store as people
from terracrew.server.identity.people.sessions import person
from terracrew.server.maintenance.local_token import first_start
from tests.bench import disk, large, large_access, large_requests
from tests.bench.figures import median, percentile
from tests.bench.filled_server import Env, insert_runners, put_load
from tests.bench.large_requests import ReaderPlaces
from tests.bench.load import Task
from tests.bench.simulated_runners import Access
from tests.bench.wire import HttpClient
from tests.builders.job_rows import change_modules
from tests.e2e.system import running

SAMPLES = 100
DISPATCHED, CREW = 2_700, 20
DISPATCH_GAP_SECONDS = (0.05, 0.15)
READ_GAP_SECONDS = (0.02, 0.08)
PROBE_SECONDS = 0.005
SETTLE_SECONDS = 15.0
"""A server that starts reads the whole queue first."""
IDLE_SECONDS = 10.0


class Site(msgspec.Struct, frozen=True):
    tokens: dict[str, str]
    members: list[Access]
    places: dict[str, ReaderPlaces]
    modules: list[str]


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        found |= _of_database(env, kind)
    return found


def _of_database(env: Env, kind: str) -> dict[str, float]:
    with env.database(kind) as url, running(env.folder(kind), url) as system:
        system.data.mkdir()
        address = url or str(system.data / "terracrew.db")
        began = time.perf_counter()
        site = asyncio.run(_fill(address))
        env.say(f"{kind}: filled in {time.perf_counter() - began:.0f} s")
        os.sync()  # what was written only to fill it must not delay the commits that are measured
        system.start_server(runner=False, module="tests.bench.heard_server")
        seconds, dispatched = asyncio.run(_measure(system.url, site, env.directory / f"page-{kind}"))
    found: dict[str, float] = {}
    for name, values in seconds.items():
        milliseconds = [1000 * value for value in values]
        if name in ("loop_block", "loop_block_idle"):
            found[f"{name}_ms.{kind}"] = max(milliseconds)
            found[f"{name}_ms.{kind}.p99"] = percentile(milliseconds, 0.99)
            continue
        if name == "sync_idle":
            found[f"sync_idle_ms.{kind}.p50"] = median(milliseconds)
            found[f"sync_idle_ms.{kind}.p99"] = percentile(milliseconds, 0.99)
            continue
        figure, _, rest = name.partition(".")
        found[f"{figure}.{kind}.{rest}.p50"] = median(milliseconds)
        found[f"{figure}.{kind}.{rest}.p99"] = percentile(milliseconds, 0.99)
    found[f"dispatch_ms.{kind}.lists.p50"] = 1000 * median(dispatched)
    found[f"dispatch_ms.{kind}.lists.p99"] = 1000 * percentile(dispatched, 0.99)
    return found


async def _fill(url: str) -> Site:
    db = await open_database(url)
    try:
        await first_start(db)
        admin = await db.read(lambda tx: people.user(tx, service.ADMINISTRATOR))
        organization_id = admin.organization_id
        assert organization_id is not None
        reader = await db.write(lambda tx: people.insert_user(tx, organization_id, "reader", is_system_admin=False))
        tokens: dict[str, str] = {}
        for name, user in (("admin", admin), ("reader", reader)):
            _, secret = await service.create_token(db, person(user, None), "bench", None)
            tokens[name] = secret.text
        await large.fill(db, organization_id, reader.id)
        await large_access.fill(db, organization_id)
        members = await db.write(lambda tx: insert_runners(tx, organization_id, CREW))
        return await db.write(lambda tx: _site(tx, tokens, members))
    finally:
        await db.close()
        if url.startswith("postgres"):
            vacuum(url)


def vacuum(url: str) -> None:
    """Vacuum the database before anything is measured: in a database that has grown to this size, autovacuum has done that."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        connection.execute("CHECKPOINT")


async def _site(tx: Tx, tokens: dict[str, str], members: list[Access]) -> Site:
    places: dict[str, ReaderPlaces] = {}
    for name, group in (("admin", "team-1/project-40"), ("reader", large.SMALL_GROUP)):
        row = await tx.one(
            """SELECT modules.id AS module, modules.path, (SELECT max(id) FROM jobs WHERE module_id = modules.id) AS job,
                groups.id AS "group", groups.path AS group_path,
                (SELECT min(id) FROM runners WHERE group_id = groups.id) AS runner
            FROM modules JOIN groups ON groups.id = modules.group_id WHERE groups.path = :path ORDER BY modules.id LIMIT 1""",
            path=group,
        )
        assert row is not None
        places[name] = msgspec.convert(row, ReaderPlaces)
    # Of groups without a runner: those of the other server would be nearer, and nobody here could offer them anything.
    rows = await tx.all(
        """SELECT id, path FROM modules WHERE engine = 'tofu'
            AND NOT EXISTS (SELECT 1 FROM assignments WHERE assignments.place_id = modules.group_id) ORDER BY id LIMIT 100"""
    )
    # Their states are no ciphertexts, and a job whose state cannot be read is never granted.
    for row in rows:
        await tx.run("DELETE FROM states WHERE module_id = :id", id=row["id"])
        await change_modules(tx, row["id"], state_version=0)
    return Site(tokens, members, places, [row["path"] for row in rows])


async def _measure(url: str, site: Site, page: Path) -> tuple[dict[str, list[float]], list[float]]:
    seconds: dict[str, list[float]] = {}
    load = Task(
        "dispatch",
        url,
        site.tokens["admin"],
        site.members,
        site.modules,
        DISPATCHED,
        capacity=100,
        gap_seconds=DISPATCH_GAP_SECONDS,
    )
    await asyncio.sleep(SETTLE_SECONDS)
    idle = asyncio.Event()
    asyncio.get_running_loop().call_later(IDLE_SECONDS, idle.set)
    syncing = asyncio.create_task(asyncio.to_thread(disk.sync_seconds, page))
    await _probe(url, idle, seconds.setdefault("loop_block_idle", []))
    seconds["sync_idle"] = await syncing
    done = asyncio.Event()
    probe = asyncio.create_task(_probe(url, done, seconds.setdefault("loop_block", [])))
    dispatching = asyncio.create_task(asyncio.to_thread(put_load, load))
    await asyncio.gather(*(_read(url, site, who, seconds) for who in site.tokens))
    figures = await dispatching
    done.set()
    await probe
    return seconds, figures.seconds


async def _read(url: str, site: Site, who: str, seconds: dict[str, list[float]]) -> None:
    """Send one request at a time, with small pauses, each equally often and in random order."""
    client = await HttpClient.open(url, site.tokens[who])
    wanted = large_requests.requests(who, site.places[who])
    order = [name for name in wanted for _ in range(SAMPLES)]
    random.Random(1).shuffle(order)
    for name in [*wanted, *order]:  # the first of each is to warm up
        await asyncio.sleep(random.uniform(*READ_GAP_SECONDS))
        began = time.perf_counter()
        status, _ = await client.fetch(wanted[name].address)
        took = time.perf_counter() - began
        if status not in ((403, 404) if wanted[name].is_refused else (200,)):
            raise RuntimeError(f"{wanted[name].address} was answered with {status}")
        seconds.setdefault(name, []).append(took)
    for name in wanted:
        del seconds[name][0]


async def _probe(url: str, done: asyncio.Event, found: list[float]) -> None:
    """Measure how long the event loop takes to answer a trivial request; on an idle server this is the noise of the machine."""
    client = await HttpClient.open(url, "")
    while not done.is_set():
        began = time.perf_counter()
        await client.fetch("/healthz")
        found.append(time.perf_counter() - began)
        await asyncio.sleep(PROBE_SECONDS)
