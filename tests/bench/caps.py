"""`claim_ms`, `reasons_ms`: a claim, and the reasons of a page of waiting jobs, in a large organization whose groups all limit how many
jobs run at once, while thousands of jobs run."""

import asyncio
import time
from typing import LiteralString

from terracrew.server.connections.registry import Registry
from terracrew.server.db import Database, open_database
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import store
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.attempts.claim_store import Claimant, ClaimRequest
from terracrew.server.scheduling import explain
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.tree.groups import service as groups
from tests.bench import large
from tests.bench.figures import median, percentile
from tests.bench.filled_server import Env
from tests.bench.large import MODULES, NUMBERS, row_id, run_in_batches
from tests.builders.job_rows import change_groups

RUNNING, QUEUED, CLAIMS, PAGES, PAGE_JOBS = 4_800, 2_000, 200, 50, 100


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        found |= of_database(env, kind)
    return found


def of_database(env: Env, kind: str) -> dict[str, float]:
    with env.database(kind) as url:
        uncapped, claimed, explained = asyncio.run(_measure(url or str(env.folder(kind) / "terracrew.db")))
    return {
        f"claim_ms.{kind}.uncapped.p50": 1000 * median(uncapped),
        f"claim_ms.{kind}.uncapped.p99": 1000 * percentile(uncapped, 0.99),
        f"claim_ms.{kind}.capped.p50": 1000 * median(claimed),
        f"claim_ms.{kind}.capped.p99": 1000 * percentile(claimed, 0.99),
        f"reasons_ms.{kind}.capped.p50": 1000 * median(explained),
        f"reasons_ms.{kind}.capped.p99": 1000 * percentile(explained, 0.99),
    }


async def _measure(address: str) -> tuple[list[float], list[float], list[float]]:
    db = await open_database(address)
    try:
        await _fill(db)
        uncapped = await _claim(db)
        await db.write(lambda tx: tx.run("UPDATE groups SET max_running_jobs = 100000 - 30000 * depth"))
        return uncapped, await _claim(db), await _explain(db)
    finally:
        await db.close()


async def _fill(db: Database) -> None:
    """Write a tree with jobs that run and jobs that wait, each of its own module."""
    organization = await db.write(lambda tx: groups.ensure_organization(tx, "bench"))
    root = await db.read(lambda tx: tx.one("SELECT id FROM groups WHERE path = ''"))
    assert root is not None
    await large.fill_tree(db, organization.id, root["id"])
    await large.fill_runners(db, organization.id, root["id"])
    await run_in_batches(db, _JOBS, RUNNING + QUEUED, running=RUNNING, modules=MODULES, organization_id=organization.id)
    if db.kind == "postgres":
        await db.write(lambda tx: tx.run("ANALYZE"))


async def _claim(db: Database) -> list[float]:
    """Claim jobs one after the other, each for an instance that serves the whole organization or the group of the job."""
    claim = claims.claims(db, Keyring([bytes(32)]))
    seconds: list[float] = []
    for row in await db.read(lambda tx: tx.all(_CLAIMABLE, count=CLAIMS + 1)):
        own = claims.make_credentials()
        began = time.perf_counter()
        won = await claim(ClaimRequest(Claimant(row["id"], 1, row["runner_id"], row["instance_id"], 1), own))
        seconds.append(time.perf_counter() - began)
        if won is None:
            raise RuntimeError(f"the claim of {row['id']} was refused")
    return seconds[1:]  # the first one finds that there are caps, and is repeated


async def _explain(db: Database) -> list[float]:
    """Ask for the reasons of pages of jobs of many groups, after the groups have become full."""
    await change_groups(db, max_running_jobs=1)
    registry = Registry()
    rows = await db.read(lambda tx: tx.all("SELECT id FROM jobs WHERE status = 'QUEUED' ORDER BY id DESC LIMIT 1000"))
    seconds: list[float] = []
    for page in range(PAGES):
        job_ids = [row["id"] for row in rows[page % 10 :: 10]][:PAGE_JOBS]

        async def read(tx: Tx, job_ids: list[str] = job_ids) -> int:
            found = await explain.why_each(tx, await store.get_many(tx, job_ids), registry)
            return sum(reason.code == "capped" for reason in found.values())

        began = time.perf_counter()
        capped = await db.read_in_background(read)
        seconds.append(time.perf_counter() - began)
        if not capped:
            raise RuntimeError("no reason was a cap")
    return seconds[1:]


# The number 7 has no factor in common with the number of modules, so each job has a module of its own, in any group.
_JOBS: LiteralString = f"""INSERT INTO jobs (id, organization_id, module_id, module_path, number, type, status, source, created_by,
    created_at, queued_at, claimed_at, runner_id, instance_id)
{NUMBERS}SELECT {row_id("job")}, CAST(:organization_id AS text), modules.id, modules.path, i, 'PLAN',
    CASE WHEN i > :running THEN 'QUEUED' ELSE 'CLAIMED' END, modules.source, 'bench', CAST(:now AS double precision),
    CAST(:now AS double precision), CASE WHEN i > :running THEN NULL ELSE CAST(:now AS double precision) END,
    CASE WHEN i > :running THEN NULL ELSE {row_id("rnr", "1 + n.i % 5000")} END,
    CASE WHEN i > :running THEN NULL ELSE {row_id("ins", "1 + n.i % 5000")} END
FROM n JOIN modules ON modules.id = {row_id("mod", "1 + n.i * 7 % :modules")}"""
_CLAIMABLE: LiteralString = """SELECT jobs.id, assignments.runner_id, instances.id AS instance_id
FROM jobs JOIN modules ON modules.id = jobs.module_id AND modules.engine = 'tofu'
JOIN assignments ON assignments.place_id = modules.group_id
JOIN instances ON instances.runner_id = assignments.runner_id AND instances.is_connected
WHERE jobs.status = 'QUEUED' AND instances.id = (SELECT min(other.id) FROM assignments AS own
    JOIN instances AS other ON other.runner_id = own.runner_id AND other.is_connected WHERE own.place_id = modules.group_id)
ORDER BY jobs.id LIMIT :count"""
